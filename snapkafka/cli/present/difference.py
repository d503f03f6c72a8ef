"""A difference of two snapshots, and the values of tables."""

from __future__ import annotations

import json
from typing import Any, Final

from snapkafka import ops
from snapkafka.cli.running import console
from snapkafka.ops.diffing import ChannelChange, KeyChange, Progressed, TableChange
from snapkafka.query.manifest_check import Trust

from .layout import Table
from .printed import coloured

#: Where a table ends that a person reads.
ROWS_SHOWN: Final = 40


def print_trust(trust: Trust) -> None:
    """Print the parts that the verdict above does not cover."""
    for line in trust.not_compared:
        console.print(("note:", "yellow"), f" {line}")


def cell(value: Any) -> str:
    """Format a value as text; a composite one as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def print_difference(found: ops.Difference) -> None:
    for side in (found.before, found.after):
        console.print("snapshot ", (side.id, "bold"), f"  epoch {side.epoch}  ", coloured(side.verdict))
    shown = (_tables(found.tables), _keys(found.keys), _channels(found.channels), _progress(found.progress))
    for rows in shown:
        if rows:
            console.table(rows)
    if (more := len(found.progress) - ROWS_SHOWN) > 0:
        console.print(f"... and {more} more inputs: --json prints all")
    print_trust(found.trust)


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
        of_values = (cell(it) for it in (row.value_before, row.value_after))
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
