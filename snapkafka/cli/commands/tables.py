"""The content of tables, differences and causes: `query`, `draw`, `diff`, `trace`."""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer
from msgspec.structs import asdict

from snapkafka import ops
from snapkafka.cli.build import ask_one_way, command, question
from snapkafka.cli.running import console, data_output, print_json, reach, run, write_file
from snapkafka.cli.screen import ROWS_SHOWN, headline
from snapkafka.errors import BadInputError
from snapkafka.query.locate import manifest_places
from snapkafka.query.sandbox import Tables
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Draw, Query, Where

#: How names of columns with bytes end.
RAW: Final = "_raw"


def _print_difference(found: ops.Difference) -> None:
    console.show(found)
    console.note("note", found.trust.not_compared)


question("diff", _print_difference)
question("trace")


@command("draw", console.show)
async def draw(at: Where, asked: Draw) -> dict[str, Any]:
    output = Path(asked.output)
    if output.suffix not in (".svg", ".png"):
        raise BadInputError(f"-o must end in .svg or .png, got {output}", hint="a browser prints SVG as PDF")
    if output.suffix == ".png":
        require_extra("png", "a picture as PNG")
    more = {name: value for name, value in asdict(asked).items() if name != "output"}
    found = await ops.draw(reach(at.bootstrap), at.namespace, **more)
    write_file(output, found.svg if output.suffix == ".svg" else ops.png(found.svg))
    named = {"snapshot_id": found.id, "epoch": found.epoch, "output": str(output), "shown": found.shown}
    return named | {"hidden": found.hidden}


@command("query", own_json=True)
def query(at: Where, asked: Query) -> None:
    ask_one_way({"--csv": asked.csv, "--json": console.as_json})
    whole, where = asked.csv or console.as_json, reach(at.bootstrap)
    more: Any = {"name": asked.name, "storage": asked.storage, "rows_max": None if whole else ROWS_SHOWN}
    sqls: Iterable[str] = [asked.sql]
    if not asked.sql:
        find = partial(manifest_places, where, at.namespace, [asked.name], storage=asked.storage, good=True)
        (more["manifest"],), sqls = run(find), _typed()
    survived = () if asked.sql or not sys.stdin.isatty() else (typer.Exit,)
    with Tables() as more["tables"]:
        for sql in sqls:
            with contextlib.suppress(*survived):
                _print_queried(run(partial(ops.query, where, at.namespace, sql, **more)), as_csv=asked.csv)


def _typed() -> Iterator[str]:
    """Yield the lines of standard input; on a terminal they can be edited and repeated."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # of `input`
    with contextlib.suppress(EOFError):
        while True:
            yield from filter(None, [input("sql> " if sys.stdin.isatty() else "").strip()])


def _print_queried(found: ops.Queried, *, as_csv: bool) -> None:
    if console.as_json:
        print_json(found)
        return
    if as_csv:
        lines = csv.writer(data_output(), lineterminator="\n")
        lines.writerow(found.columns)
        lines.writerows([cell(value) for value in row.values()] for row in found.rows)
        return
    console.print(*headline(found))
    columns = [name for name in found.columns if not name.endswith(RAW)] or found.columns
    console.table(
        found.rows, *((name, lambda row, name=name: cell(row[name])) for name in columns), whole=True
    )
    if not found.rows:
        console.print("0 rows")
    if hidden := [name for name in found.columns if name not in columns]:
        console.print(f"Not shown: {', '.join(hidden)} (bytes; --csv).", style="dim")
    if found.more:
        console.print(f"... more than {len(found.rows)} rows: --json and --csv print all")
    console.note("note", found.trust.not_compared)


def cell(value: Any) -> str:
    """Format a value as text; a composite one as JSON."""
    return value or "" if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
