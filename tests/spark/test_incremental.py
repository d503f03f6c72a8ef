"""Assembled on a parent, a snapshot has the rows that it has when it is assembled as a whole."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from snapkafka.assembly import columns
from snapkafka.assembly.manifest import logs_of
from snapkafka.checks import CutView, LogRecord, reading_ranges
from snapkafka.checks.v3_state import facts_of
from snapkafka.manifest import STATE_DELTA
from snapkafka.protocol import TopicPartition
from tests.spark.at_hand import row_of, state_of
from tests.worlds.oracle import whole

from .growing_logs import EPOCHS, Logs, Row, Written, logs

#: Small worlds that are looked at at once.
WORLDS = 400
Starts = Mapping[TopicPartition, int]
Rows = list[Mapping[str, Any]]


def _state(view: CutView, written: Iterable[Written], parent: CutView | None) -> Rows:
    return [*state_of(view, [row_of(*item) for item in written], parent)]


def _read(all_: Logs, view: CutView, starts: Starts | None = None) -> list[Written]:
    """The records that the snapshot is assembled from."""
    ranges = {item[:2]: item for item in reading_ranges(CutView(view.captured, view.bounds, starts))}
    return [
        item
        for item in all_.written
        if (of := ranges.get(item.record[:2])) is not None and of[2] <= item.record.offset < of[3]
    ]


def _starts(view: CutView, written: list[Written]) -> Starts:
    """Where a delta on this snapshot begins."""
    lines: dict[TopicPartition, list[LogRecord]] = {tp: [] for tp in view.changelogs}
    for item in written:
        lines[item.record.tp].append(item.record)
    found = logs_of(view, {tp: facts_of(view, whole(tp, of)) for tp, of in lines.items()})
    return {TopicPartition(log.topic, log.partition): log.settled for log in found if log.settled is not None}


def _resolved(full: Rows, *deltas: Rows) -> Rows:
    """The whole state, as `store.state_sql` has it."""
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in (row for rows in (full, *deltas) for row in rows):
        key = (row["changelog_topic"], row["partition"], row["key_raw"])
        found[key] = row
    return [row for row in found.values() if not row.get("deleted", False)]


def _rows(state: Rows) -> set[Row]:
    names = ("changelog_topic", "partition", "key_raw", "value_raw", "changelog_offset")
    found = [Row(*(row[name] for name in names)) for row in state]
    assert len(found) == len(set(found))
    return set(found)


def test_a_chain_of_three_has_the_rows_of_the_whole() -> None:
    seed = random.randrange(10**9)
    all_ = logs(random.Random(seed), WORLDS)
    views = [all_.view(snapshot) for snapshot in range(3)]
    assert len({frozenset(all_.state(snapshot)) for snapshot in range(3)}) == 3

    read = _read(all_, views[0])
    full, deltas = _state(views[0], read, None), list[Rows]()
    assert _rows(full) == all_.state(0), f"seed {seed}"
    starts = _starts(views[0], read)
    for snapshot in (1, 2):
        parent, child = views[snapshot - 1], views[snapshot]
        read = _read(all_, child, starts)
        deltas.append(_state(child, read, parent))
        assert _rows(_resolved(full, *deltas)) == all_.state(snapshot), f"seed {seed}, snapshot {snapshot}"
        counted = {item.record[:3] for item in all_.written if parent.in_state(item.record)}
        found = {(it["changelog_topic"], it["partition"], it["changelog_offset"]) for it in deltas[-1]}
        assert not counted & found, "nothing is there twice"
        starts = _starts(child, read)
    assert starts == _starts(views[2], _read(all_, views[2])), "whatever was read"


def test_columns_of_a_delta_are_those_stated() -> None:
    all_ = logs(random.Random(2), 3)
    rows = _state(all_.view(1), _read(all_, all_.view(1)), all_.view(0))
    assert {frozenset(row) for row in rows} == {frozenset(columns(STATE_DELTA))}
    assert {row["deleted"] for row in rows} == {True, False}
    assert all((row["value_raw"] is None) == row["deleted"] for row in rows)


def test_sets_and_windows() -> None:
    """A set is told by all operations, also by those that were red for the parent; a window may be deleted."""
    places = {"sets": TopicPartition("sets", 0), "windowed": TopicPartition("windowed", 0)}
    parts = [
        (b'[1,"s"]', b'"one"', 0),
        (b'[1,"s"]', b'"red"', EPOCHS[0]),
        (b'[1,"s"]', b'"two"', 0),
        (b'[2,"s"]', b'"one"', EPOCHS[0]),
        (b'["k",[1.0,10.9]]', b"1", 0),
        (b'["k",[11.0,20.9]]', b"2", 0),
        (b'["k",[1.0,10.9]]', None, EPOCHS[0]),
    ]
    written = [
        Written(LogRecord(*places["sets" if n < 4 else "windowed"], n, 1, epoch, n), key, value)
        for n, (key, value, epoch) in enumerate(parts)
    ]
    ends: dict[TopicPartition, tuple[tuple[int, ...], ...]] = {
        places["sets"]: ((3,), (4,), (4,)),
        places["windowed"]: ((6,), (7,), (7,)),
    }
    all_ = Logs(written, {1: 9}, ends)
    parent, child = _of_kinds(all_.view(0)), _of_kinds(all_.view(1))
    full = _state(parent, _read(all_, parent), None)
    reported = ("table_name", "key", "value", "window_start", "changelog_offset")

    def rows(state: Rows) -> list[tuple[Any, ...]]:
        return sorted(tuple(row[name] for name in reported) for row in state)

    assert rows(full) == [
        ("sets", "s", '["one","two"]', None, 2),
        ("windowed", "k", "1", datetime.fromtimestamp(1, UTC), 4),
        ("windowed", "k", "2", datetime.fromtimestamp(11, UTC), 5),
    ]
    last = ("windowed", "k", "2", datetime.fromtimestamp(11, UTC), 5)
    whole = [("sets", "s", '["red","two"]', None, 3), last]
    read = _read(all_, child)
    assert rows(_state(child, read, None)) == whole
    assert rows(_resolved(full, _state(child, read, parent))) == whole


def _of_kinds(view: CutView) -> CutView:
    """Tables that are what their topics are called."""
    cuts = tuple(
        replace(cut, table=cut.topic, sets=cut.topic == "sets", windowed=cut.topic == "windowed")
        for cut in view.captured.changelogs
    )
    return CutView(replace(view.captured, changelogs=cuts), view.bounds)
