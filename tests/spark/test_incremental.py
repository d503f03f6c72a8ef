"""Assembled on a parent, a snapshot has the rows that it has when it is assembled as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from snapkafka.assembly import Lookups, local_frame, schema, stamps
from snapkafka.assembly.manifest import settled
from snapkafka.assembly.spark.tables import incremental, tables
from snapkafka.assembly.spark.verify import rules
from snapkafka.checks import CutView, LogRecord, reading_ranges
from snapkafka.manifest import STATE_DELTA
from snapkafka.manifest_entries import SettledEntry
from snapkafka.protocol import TopicPartition

from .growing_logs import EPOCHS, RECORDS_SCHEMA, Logs, Row, Written, logs
from .in_spark import frames
from .reading import at

pytestmark = pytest.mark.nightly

#: Small worlds that are looked at at once.
WORLDS = 400
Starts = Mapping[TopicPartition, int]


def _read(spark: SparkSession, all_: Logs, view: CutView, starts: Starts | None = None) -> DataFrame:
    """The records that the snapshot is assembled from."""
    ranges = {item[:2]: item for item in reading_ranges(view, starts=starts)}
    visible = [item.as_row() for item in all_.written if _within(item, ranges)]
    return local_frame(spark, RECORDS_SCHEMA, visible).persist()


def _within(item: Written, ranges: Mapping[tuple[str, int], tuple[str, int, int, int]]) -> bool:
    found = ranges.get(item.record[:2])
    return found is not None and found[2] <= item.record.offset < found[3]


def _settled(records: DataFrame, lookups: Lookups) -> tuple[SettledEntry, ...]:
    return settled(lookups.view, rules.look_at(frames(lookups.spark, lookups.view, stamps(records))).held)


def _starts(settled: tuple[SettledEntry, ...]) -> Starts:
    return {TopicPartition(entry.topic, entry.partition): entry.offset for entry in settled}


def _places(delta: DataFrame) -> set[tuple[str, int, int]]:
    return {tuple(row) for row in delta.select("changelog_topic", "partition", "changelog_offset").collect()}


def _rows(state: DataFrame) -> set[Row]:
    columns = ("changelog_topic", "partition", "key_raw", "value_raw", "changelog_offset")
    rows = [
        Row(topic, partition, key and bytes(key), bytes(value), offset)
        for topic, partition, key, value, offset in state.select(*columns).collect()
    ]
    assert len(rows) == len(set(rows))
    return set(rows)


def test_a_chain_of_three_has_the_rows_of_the_whole(spark: SparkSession) -> None:
    seed = random.randrange(10**9)
    all_ = logs(random.Random(seed), WORLDS)
    lookups = [Lookups(spark, all_.view(snapshot)) for snapshot in range(3)]
    assert len({frozenset(all_.state(snapshot)) for snapshot in range(3)}) == 3

    records = _read(spark, all_, lookups[0].view)
    full = tables.state(records, lookups[0])
    assert _rows(full) == all_.state(0), f"seed {seed}"
    settled, parts = _settled(records, lookups[0]), list[DataFrame]()
    for snapshot in (1, 2):
        parent, child = lookups[snapshot - 1], lookups[snapshot]
        records = _read(spark, all_, child.view, _starts(settled))
        parts.append(incremental.delta(records, child, parent))
        assert _rows(incremental.resolved(full, parts)) == all_.state(snapshot), (
            f"seed {seed}, snapshot {snapshot}"
        )
        counted = {item.record[:3] for item in all_.written if parent.view.in_state(item.record)}
        assert not counted & _places(parts[-1]), "nothing is there twice"
        settled = _settled(records, child)
    assert settled == _settled(_read(spark, all_, lookups[2].view), lookups[2]), "whatever was read"


def _from_the_parents_end(all_: Logs, settled: Starts) -> Starts:
    """Red records of the parent below its end are taken for counted."""
    return {tp: max(ends[0]) for tp, ends in all_.ends.items()}


def _one_late(all_: Logs, settled: Starts) -> Starts:
    return {tp: offset + 1 for tp, offset in settled.items()}


@pytest.mark.parametrize("mistaken", [_from_the_parents_end, pytest.param(_one_late)])
def test_a_delta_that_begins_too_late_is_noticed(
    spark: SparkSession, mistaken: Callable[[Logs, Starts], Starts]
) -> None:
    all_ = logs(random.Random(1), WORLDS)
    parent, child = (Lookups(spark, all_.view(snapshot)) for snapshot in range(2))
    records = _read(spark, all_, parent.view)
    starts = mistaken(all_, _starts(_settled(records, parent)))
    delta = incremental.delta(_read(spark, all_, child.view, starts), child, parent)
    assert _rows(incremental.resolved(tables.state(records, parent), [delta])) != all_.state(1)


def test_a_delta_of_new_records_alone_is_noticed(spark: SparkSession) -> None:
    """Behind a red record may lie a white one that the parent has counted; it is the last all the same."""
    all_ = logs(random.Random(1), WORLDS)
    before = all_.view(0)
    parent, child = (Lookups(spark, all_.view(snapshot)) for snapshot in range(2))
    full = tables.state(_read(spark, all_, parent.view), parent)
    only_new = Logs([item for item in all_.written if not before.in_state(item.record)], all_.left, all_.ends)
    delta = incremental.delta(_read(spark, only_new, child.view), child, parent)
    assert _rows(incremental.resolved(full, [delta])) != all_.state(1)


def test_columns_of_a_delta_are_those_stated(spark: SparkSession) -> None:
    all_ = logs(random.Random(2), 3)
    parent, child = (Lookups(spark, all_.view(snapshot)) for snapshot in range(2))
    delta = incremental.delta(_read(spark, all_, child.view), child, parent)
    assert ", ".join(f"{name} {kind}" for name, kind in delta.dtypes) == schema(STATE_DELTA)
    rows = delta.collect()
    assert {row["deleted"] for row in rows} == {True, False}
    assert all((row["value_raw"] is None) == row["deleted"] for row in rows)


def test_sets_and_windows(spark: SparkSession) -> None:
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
    parent, child = (Lookups(spark, _of_kinds(all_.view(snapshot))) for snapshot in range(2))
    full = tables.state(_read(spark, all_, parent.view), parent)
    records = _read(spark, all_, child.view)
    reported = ("table_name", "key", "value", "window_start", "changelog_offset")

    def rows(state: DataFrame) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in state.select(*reported).collect())

    assert rows(full) == [
        ("sets", "s", '["one","two"]', None, 2),
        ("windowed", "k", "1", at(1.0), 4),
        ("windowed", "k", "2", at(11.0), 5),
    ]
    whole = [("sets", "s", '["red","two"]', None, 3), ("windowed", "k", "2", at(11.0), 5)]
    assert rows(tables.state(records, child)) == whole
    assert rows(incremental.resolved(full, [incremental.delta(records, child, parent)])) == whole


def _of_kinds(view: CutView) -> CutView:
    """Tables that are what their topics are called."""
    cuts = tuple(
        replace(cut, table=cut.topic, sets=cut.topic == "sets", windowed=cut.topic == "windowed")
        for cut in view.captured.changelogs
    )
    return CutView(replace(view.captured, changelogs=cuts), view.bounds)
