"""`snapkafka query` and `draw`: the content of the tables, for a person, as JSON, as CSV, as a diagram."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

from snapkafka import ops
from snapkafka.cli.build import AsJson
from snapkafka.cli.output_file import write_whole
from snapkafka.cli.present.difference import ROWS_SHOWN, cell
from snapkafka.cli.present.printed import count, headline
from snapkafka.cli.running import connect, console, data_output, print_json, run
from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Draw, Query, Where

from .doctor import ask_one_way

#: How names of columns with bytes end.
RAW: Final = "_raw"


# -- draw ----------------------------------------------------------------------------------------------------


def draw(at: Where, asked: Draw, as_json: AsJson = False) -> None:
    output = Path(asked.output)

    async def work() -> ops.Drawn:
        if output.suffix not in (".svg", ".png"):
            raise BadInputError(
                f"-o must end in .svg or .png, got {output}", hint="a browser prints SVG as PDF"
            )
        if output.suffix == ".png":
            require_extra("png", "a picture as PNG")
        found = await ops.draw(
            connect(at.bootstrap) if at.bootstrap else None,
            at.namespace,
            name=asked.name,
            storage=asked.storage,
            wall_clock=asked.wall_clock,
        )
        write_whole(output, found.svg if output.suffix == ".svg" else ops.png(found.svg))
        return found

    found = run(work, as_json=as_json)
    if as_json:
        print_json(
            {
                "id": found.id,
                "epoch": found.epoch,
                "output": str(output),
                "shown": found.shown,
                "hidden": found.hidden,
                **({"wall_clock": asdict(found.wall)} if found.wall else {}),
            }
        )
    elif found.wall:
        console.print(f"Wrote {output}: snapshot {found.id}")
        for note in found.notes:
            console.print(note)
    else:
        console.print(
            f"Wrote {output}: snapshot {found.id}, {count(found.shown, 'message')} in flight,"
            f" {found.hidden:,} more not shown"
        )


# -- query ----------------------------------------------------------------------------------------------------


def query(at: Where, asked: Query, as_json: AsJson = False) -> None:
    async def work() -> ops.Queried:
        await ask_one_way({"--csv": asked.csv, "--json": as_json})
        return await ops.query(
            connect(at.bootstrap) if at.bootstrap else None,
            at.namespace,
            asked.sql,
            name=asked.name,
            storage=asked.storage,
            rows_max=None if asked.csv or as_json else ROWS_SHOWN,
        )

    found = run(work, as_json=as_json)
    if as_json:
        print_json(found)
    elif asked.csv:
        _write_csv(found, data_output())
    else:
        _print_queried(found)


def _write_csv(found: ops.Queried, file: TextIO) -> None:
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(found.columns)
    lines.writerows([cell(value) for value in row.values()] for row in found.rows)


def _print_queried(found: ops.Queried) -> None:
    console.print(*headline(found.id, found.epoch, found.verdict))
    hidden = [name for name in found.columns if name.endswith(RAW)]
    if len(hidden) == len(found.columns):
        hidden = []
    columns = [name for name in found.columns if name not in hidden]
    console.table(found.rows, *((name, partial(_cell_of, name)) for name in columns), whole=True)
    if hidden:
        console.print(f"Not shown: {', '.join(hidden)} (bytes; --csv).", style="dim")
    if found.more:
        console.print(f"... more than {len(found.rows)} rows: --json and --csv print all")
    console.note("note", found.trust.not_compared)


def _cell_of(name: str, row: Mapping[str, Any]) -> str:
    return cell(row[name])
