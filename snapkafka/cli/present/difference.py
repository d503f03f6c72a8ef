"""A difference of two snapshots, and the values of tables."""

from __future__ import annotations

import json
from typing import Any, Final

from snapkafka import ops
from snapkafka.cli.running import console
from snapkafka.ops.diffing import KeyChange, Progressed

from .printed import headline

#: Where a table ends that a person reads.
ROWS_SHOWN: Final = 40


def cell(value: Any) -> str:
    """Format a value as text; a composite one as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
