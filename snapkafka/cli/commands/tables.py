"""The content of tables, differences and causes: `query`, `draw`, `diff`, `trace`."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from snapkafka import ops
from snapkafka.cli.build import ask_one_way, command, question
from snapkafka.cli.commands.snapshots import count, headline
from snapkafka.cli.running import console, data_output, print_json, reach, run, write_file
from snapkafka.errors import BadInputError
from snapkafka.ops.diffing import KeyChange, Progressed
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Draw, Query, Where

#: Where a table ends that a person reads.
ROWS_SHOWN: Final = 40
#: How names of columns with bytes end.
RAW: Final = "_raw"


def cell(value: Any) -> str:
    """Format a value as text; a composite one as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- diff -----------------------------------------------------------------------------------------------------


def print_difference(found: ops.Difference) -> None:
    for side in (found.before, found.after):
        console.print(*headline(side.id, side.epoch, side.verdict))
    console.table(found.tables, "app", "table", "added:,", "changed:,", "removed:,", "unchanged:,")
    console.table(
        found.keys,
        "app",
        "table",
        "change",
        "partition",
        ("key", _key),
        ("before", lambda it: cell(it.value_before)),
        ("after", lambda it: cell(it.value_after)),
    )
    console.table(
        found.channels,
        "sender=sender_app",
        "receiver=receiver_app",
        "topic",
        ("in flight", lambda it: f"{it.messages_before:,} -> {it.messages_after:,}"),
        ("bytes", lambda it: f"{it.bytes_before:,} -> {it.bytes_after:,}"),
    )
    console.table(
        found.progress[:ROWS_SHOWN],
        "app",
        ("input", lambda it: f"{it.topic}[{it.partition}]"),
        ("position", lambda it: f"{_position(it.before)} -> {_position(it.after)}"),
        ("processed", _processed),
    )
    if (more := len(found.progress) - ROWS_SHOWN) > 0:
        console.print(f"... and {more} more inputs: --json prints all")
    console.note("note", found.trust.not_compared)


def _key(row: KeyChange) -> str:
    key = f"0x{row.key_raw}" if row.key is None else row.key
    if row.window_start is None:
        return key
    return f"{key} in the window from {row.window_start} to {row.window_end}"


def _processed(row: Progressed) -> str:
    if row.processed is not None:
        return f"{row.processed:,}"
    return "" if None in (row.before, row.after) else "the topic was recreated"


def _position(position: int | None) -> str:
    return "none" if position is None else str(position)


question("diff", print_difference)


# -- draw ----------------------------------------------------------------------------------------------------


def _print_drawn(found: dict[str, Any]) -> None:
    wrote = f"Wrote {found['output']}: snapshot {found['snapshot_id']}"
    if "wall_clock" in found:
        console.print(wrote)
        for note in found["notes"]:
            console.print(note)
    else:
        shown = count(found["shown"], "message")
        console.print(f"{wrote}, {shown} in flight, {found['hidden']:,} more not shown")


@command("draw", _print_drawn)
async def draw(at: Where, asked: Draw) -> dict[str, Any]:
    output = Path(asked.output)
    if output.suffix not in (".svg", ".png"):
        raise BadInputError(f"-o must end in .svg or .png, got {output}", hint="a browser prints SVG as PDF")
    if output.suffix == ".png":
        require_extra("png", "a picture as PNG")
    found = await ops.draw(
        reach(at.bootstrap),
        at.namespace,
        name=asked.name,
        storage=asked.storage,
        wall_clock=asked.wall_clock,
    )
    write_file(output, found.svg if output.suffix == ".svg" else ops.png(found.svg))
    named = {"snapshot_id": found.id, "epoch": found.epoch, "output": str(output)}
    numbers = {"shown": found.shown, "hidden": found.hidden}
    return named | numbers | ({"wall_clock": asdict(found.wall), "notes": found.notes} if found.wall else {})


# -- query ----------------------------------------------------------------------------------------------------


@command("query", own_json=True)
def query(at: Where, asked: Query) -> None:
    async def work() -> ops.Queried:
        await ask_one_way({"--csv": asked.csv, "--json": console.as_json})
        return await ops.query(
            reach(at.bootstrap),
            at.namespace,
            asked.sql,
            name=asked.name,
            storage=asked.storage,
            rows_max=None if asked.csv or console.as_json else ROWS_SHOWN,
        )

    found = run(work)
    if console.as_json:
        print_json(found)
    elif asked.csv:
        lines = csv.writer(data_output(), lineterminator="\n")
        lines.writerow(found.columns)
        lines.writerows([cell(value) for value in row.values()] for row in found.rows)
    else:
        _print_queried(found)


def _print_queried(found: ops.Queried) -> None:
    console.print(*headline(found.id, found.epoch, found.verdict))
    hidden = [name for name in found.columns if name.endswith(RAW)]
    if len(hidden) == len(found.columns):
        hidden = []
    columns = [name for name in found.columns if name not in hidden]
    console.table(
        found.rows, *((name, lambda row, name=name: cell(row[name])) for name in columns), whole=True
    )
    if hidden:
        console.print(f"Not shown: {', '.join(hidden)} (bytes; --csv).", style="dim")
    if found.more:
        console.print(f"... more than {len(found.rows)} rows: --json and --csv print all")
    console.note("note", found.trust.not_compared)


# -- trace ----------------------------------------------------------------------------------------------------


def print_trace(found: ops.Trace) -> None:
    """Print the chain of causes."""
    for number, step in enumerate(found.steps):
        console.print(f"{'  because of ' if number else ''}{_step(step)}")
    console.print(found.end)


def _step(step: ops.TraceStep) -> str:
    place = f"{step.topic}[{step.partition}] offset {step.offset}"
    if step.process < 0:
        return f"{place}, external"
    what = "marker of" if step.marker else "sent by"
    when = f"after snapshot {step.after or f'of epoch {step.epoch}'}" if step.epoch else "before any snapshot"
    return f"{place}, {what} {step.app or 'an unknown app'} (process {step.process}, seq {step.seq}), {when}"


question("trace", print_trace)
