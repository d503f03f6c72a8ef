"""`snapkafka query`, `diff` and `draw`: the content of the tables, for a person, as JSON, as CSV, as a diagram."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from snapkafka import ops
from snapkafka.cli.options import AsJson, Bootstrap, ManifestPath, Namespace, Stored
from snapkafka.cli.output_file import write_whole
from snapkafka.cli.present.layout import Table
from snapkafka.cli.present.printed import coloured, count
from snapkafka.cli.running import connect, console, data_output, print_json, run
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST
from snapkafka.ops.diffing import ChannelChange, KeyChange, Progressed, TableChange
from snapkafka.query.manifest_check import Trust
from snapkafka.runtime.extras import require_extra

from .doctor import ask_one_way

#: Where a table ends that a person reads.
ROWS_SHOWN: Final = 40
#: How names of columns with bytes end.
RAW: Final = "_raw"


Unchecked = Annotated[bool, typer.Option("--unchecked", help="Do not compare the files with the manifest.")]


# -- draw ----------------------------------------------------------------------------------------------------


def draw(
    snapshot: Annotated[
        str, typer.Argument(metavar="ID", help="Id, epoch or `latest` (newest assembled).")
    ] = LATEST,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="File to write: *.svg or *.png.")
    ] = Path("cut.svg"),
    storage: Stored = "",
    manifest: ManifestPath = "",
    wall_clock: Annotated[
        bool, typer.Option("--wall-clock", help="Also draw the cut at one wall-clock time.")
    ] = False,
    at: Annotated[
        str,
        typer.Option(
            "--at", metavar="TIME", help="That time: ISO 8601 or +80ms. Default: median of the cuts."
        ),
    ] = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Draw the cut of a snapshot as a space-time diagram."""
    asked = at if wall_clock or at else None

    async def work() -> ops.Drawn:
        if output.suffix not in (".svg", ".png"):
            raise BadInputError(
                f"-o must end in .svg or .png, got {output}", hint="a browser prints SVG as PDF"
            )
        if output.suffix == ".png":
            require_extra("png", "a picture as PNG")
        found = await ops.draw(
            connect(bootstrap) if bootstrap else None,
            namespace,
            name=snapshot,
            manifest=manifest,
            storage=storage,
            wall_clock=asked,
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


def query(
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help='SELECT on state, messages, ...; other snapshots: "ID".state'),
    ],
    snapshot: Annotated[
        str, typer.Option("--snapshot", metavar="ID", help="Id, epoch or `latest` (newest good).")
    ] = LATEST,
    storage: Stored = "",
    manifest: ManifestPath = "",
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    unchecked: Unchecked = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the result as CSV.")] = False,
    as_json: AsJson = False,
) -> None:
    """Query an assembled snapshot with SQL (DuckDB).

    It reads the files of the snapshot and changes nothing. `--csv` and `--json` also print columns of bytes.
    """
    whole = as_csv or as_json

    async def work() -> ops.Queried:
        await ask_one_way(
            {"--snapshot": snapshot != LATEST, "--manifest": bool(manifest)},
            {"--csv": as_csv, "--json": as_json},
        )
        return await ops.query(
            connect(bootstrap) if bootstrap else None,
            namespace,
            sql,
            name=snapshot,
            manifest=manifest,
            storage=storage,
            rows_max=None if whole else ROWS_SHOWN,
            unchecked=unchecked,
        )

    found = run(work, as_json=as_json)
    if as_json:
        print_json(found)
    elif as_csv:
        _write_csv(found, data_output())
    else:
        _print_queried(found)


def _write_csv(found: ops.Queried, file: TextIO) -> None:
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(found.columns)
    lines.writerows([_cell(value) for value in row.values()] for row in found.rows)


def _print_queried(found: ops.Queried) -> None:
    console.print("snapshot ", (found.id, "bold"), f"  epoch {found.epoch}  ", coloured(found.verdict))
    hidden = [name for name in found.columns if name.endswith(RAW)]
    if len(hidden) == len(found.columns):
        hidden = []
    columns = [name for name in found.columns if name not in hidden]
    numbers = {
        name for name in columns if all(isinstance(row[name], int | float | None) for row in found.rows)
    }
    rows = Table(*columns, right=numbers)
    for row in found.rows:
        rows.add(*(_cell(row[name]) for name in columns))
    console.table(rows)
    if hidden:
        console.print(f"Not shown: {', '.join(hidden)} (bytes; --csv).", style="dim")
    if found.more:
        console.print(f"... more than {len(found.rows)} rows: --json and --csv print all")
    _print_trust(found.trust)


def _print_trust(trust: Trust) -> None:
    """Print the parts that the verdict above does not cover."""
    for line in trust.not_compared:
        console.print(("note:", "yellow"), f" {line}")


def _cell(value: Any) -> str:
    """Format a value as text; a composite one as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- diff -----------------------------------------------------------------------------------------------------


def diff(
    before: Annotated[
        str, typer.Argument(metavar="A", help="Snapshot before: id, epoch or `latest` (newest good).")
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="Snapshot after: id, epoch or `latest`.")],
    storage: Stored = "",
    keys: Annotated[
        int,
        typer.Option("--keys", metavar="N", min=0, help="List up to N keys per table and kind of change."),
    ] = 0,
    values: Annotated[bool, typer.Option("--values", help="Show the values of the listed keys.")] = False,
    unchecked: Unchecked = False,
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    as_json: AsJson = False,
) -> None:
    """Compare two assembled snapshots.

    It compares keys, messages in flight, and how far each input was read.
    """
    found = run(
        lambda: ops.diff(
            connect(bootstrap) if bootstrap else None,
            namespace,
            before,
            after,
            storage=storage,
            keys=keys,
            values=values,
            unchecked=unchecked,
        ),
        as_json=as_json,
    )
    if as_json:
        print_json(found)
    else:
        print_difference(found)


def print_difference(found: ops.Difference) -> None:
    for side in (found.before, found.after):
        console.print("snapshot ", (side.id, "bold"), f"  epoch {side.epoch}  ", coloured(side.verdict))
    shown = (_tables(found.tables), _keys(found.keys), _channels(found.channels), _progress(found.progress))
    for rows in shown:
        if rows:
            console.table(rows)
    if (more := len(found.progress) - ROWS_SHOWN) > 0:
        console.print(f"... and {more} more inputs: --json prints all")
    _print_trust(found.trust)


def _tables(tables: tuple[TableChange, ...]) -> Table:
    counts = ("added", "changed", "removed", "unchanged")
    rows = Table("app", "table", *counts, right=counts)
    for row in tables:
        numbers = (row.added, row.changed, row.removed, row.unchanged)
        rows.add(row.app, row.table, *(f"{number:,}" for number in numbers))
    return rows


def _keys(keys: tuple[KeyChange, ...]) -> Table:
    values = any(row.value_before is not None or row.value_after is not None for row in keys)
    more = ("before", "after") if values else ()
    rows = Table("app", "table", "change", "partition", "key", *more, right=("partition",))
    for row in keys:
        of_values = (_cell(it) for it in (row.value_before, row.value_after))
        cells = (row.app, row.table, row.change, str(row.partition), _key(row))
        rows.add(*cells, *(of_values if values else ()))
    return rows


def _key(row: KeyChange) -> str:
    key = f"0x{row.key_raw}" if row.key is None else row.key
    if row.window_start is None:
        return key
    return f"{key} in the window from {row.window_start} to {row.window_end}"


def _channels(channels: tuple[ChannelChange, ...]) -> Table:
    rows = Table("sender", "receiver", "topic", "in flight", "bytes", right=("in flight", "bytes"))
    for row in channels:
        rows.add(
            row.sender_app,
            row.receiver_app,
            row.topic,
            f"{row.messages_before:,} -> {row.messages_after:,}",
            f"{row.bytes_before:,} -> {row.bytes_after:,}",
        )
    return rows


def _progress(progress: tuple[Progressed, ...]) -> Table:
    rows = Table("app", "input", "position", "processed", right=("position", "processed"))
    for row in progress[:ROWS_SHOWN]:
        rows.add(
            row.app,
            f"{row.topic}[{row.partition}]",
            f"{_position(row.before)} -> {_position(row.after)}",
            _processed(row),
        )
    return rows


def _processed(row: Progressed) -> str:
    if row.processed is not None:
        return f"{row.processed:,}"
    return "" if None in (row.before, row.after) else "the topic was recreated"


def _position(position: int | None) -> str:
    return "none" if position is None else str(position)
