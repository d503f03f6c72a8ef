"""What a log has lost since a snapshot was assembled: found by recorded offsets alone, without settings or clocks."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import pytest

from snapkafka.kafka import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.manifest_entries import LogEntry, SettledEntry
from snapkafka.protocol import Position, TopicPartition
from snapkafka.recovery import NewRecord, Row, records_of_state
from snapkafka.recovery.shortened import (
    Shortened,
    counted,
    log_refusals,
    shortened,
    written_whole,
)
from snapkafka.recovery.state import touch
from tests.unit.base.test_manifest import example

CHANGELOG, INPUT = TopicPartition("c", 0), TopicPartition("in", 0)
#: Where the logs of `recorded()` started and ended.
THEN: Final = {CHANGELOG: (2, 20), INPUT: (1, 30)}


def recorded(*missing: TopicPartition, settled: int = 4) -> Manifest:
    """A changelog whose state is the fold below 5, and an input whose position is 3, with the logs of then."""
    logs = [
        LogEntry(topic=tp.topic, partition=0, topic_id="ab", start=start, end=end)
        for tp, (start, end) in THEN.items()
        if tp not in missing
    ]
    entry = SettledEntry(topic="c", partition=0, offset=settled)
    return dataclasses.replace(example(), logs=tuple(logs), settled=(entry,))


def found(manifest: Manifest, changelog: tuple[int, int], source: tuple[int, int]) -> list[Any]:
    now = {CHANGELOG: changelog, INPUT: source}
    starts, ends = ({tp: bounds[at] for tp, bounds in now.items()} for at in (0, 1))
    return [
        (item.topic, item.kind, item.lost, item.then, item.now) for item in shortened(manifest, starts, ends)
    ]


def test_a_log_that_only_grew_has_lost_nothing() -> None:
    assert found(recorded(), (2, 20), (1, 30)) == []
    assert found(recorded(), (2, 25), (1, 99)) == []


@pytest.mark.parametrize(
    ("changelog", "source", "expected"),
    [
        ((3, 20), (1, 30), [("c", "changelog", "beginning", 2, 3)]),
        ((25, 25), (1, 30), [("c", "changelog", "beginning", 2, 25)]),  # deleted up to its end
        ((2, 20), (2, 30), [("in", "input", "beginning", 1, 2)]),
        ((2, 19), (1, 30), [("c", "changelog", "end", 20, 19)]),
        ((0, 0), (1, 30), [("c", "changelog", "end", 20, 0)]),  # a disk was set back to nothing
        ((2, 20), (1, 29), [("in", "input", "end", 30, 29)]),
        (
            (3, 19),
            (2, 29),
            [
                ("c", "changelog", "end", 20, 19),
                ("c", "changelog", "beginning", 2, 3),
                ("in", "input", "end", 30, 29),
                ("in", "input", "beginning", 1, 2),
            ],
        ),
    ],
)
def test_what_a_log_has_lost_since(
    changelog: tuple[int, int], source: tuple[int, int], expected: list[Any]
) -> None:
    assert found(recorded(), changelog, source) == expected


def test_every_pair_of_bounds_agrees_with_the_rule() -> None:
    """A log has lost its beginning if and only if it starts later, and its end if and only if it ends earlier."""
    for start, end in itertools.product(range(5), range(18, 23)):
        lost = {what for topic, _, what, *_ in found(recorded(), (start, end), (1, 30)) if topic == "c"}
        assert lost == {*(["beginning"] if start > 2 else []), *(["end"] if end < 20 else [])}, (start, end)


def test_of_a_manifest_of_an_earlier_release_nothing_is_known() -> None:
    old = recorded(CHANGELOG, INPUT)
    unknown = ("c", "changelog", "unknown", -1, 0)
    assert found(old, (0, 20), (0, 30)) == [unknown]
    assert found(old, (7, 20), (7, 30)) == [("c", "changelog", "unknown", -1, 7)]


@pytest.mark.parametrize(
    ("changelog_end", "source_end", "expected"),
    [
        (5, 9, []),
        (4, 9, [("c", "changelog", "end", 5, 4)]),  # below the cut
        (5, 8, [("in", "input", "end", 9, 8)]),  # below the end that its reader saw at the cut
    ],
)
def test_a_cut_or_a_position_above_the_end_is_found_without_a_record_of_the_log(
    changelog_end: int, source_end: int, expected: list[Any]
) -> None:
    known = found(recorded(CHANGELOG, INPUT), (0, changelog_end), (0, source_end))
    assert [item for item in known if item[2] != "unknown"] == expected


def test_positions_of_agents_and_what_they_started_above_count() -> None:
    manifest = recorded(CHANGELOG, INPUT)
    (source,) = manifest.captured.inputs
    agent = Position(agent="a", topic="in", partition=0, offset=12, started_above=(40,))
    captured = dataclasses.replace(
        manifest.captured, inputs=(dataclasses.replace(source, agents=(agent,)),), changelogs=()
    )
    manifest = dataclasses.replace(manifest, captured=captured)
    assert found(manifest, (0, 20), (0, 41)) == []
    assert found(manifest, (0, 20), (0, 40)) == [("in", "input", "end", 41, 40)]


def test_a_partition_that_does_not_exist_is_judged_elsewhere() -> None:
    assert shortened(recorded(), {INPUT: 1}, {INPUT: 30}) == ()
    assert shortened(recorded(), {CHANGELOG: 9}, {}) == ()


def test_a_log_whose_end_was_cut_is_refused_by_name() -> None:
    lost = shortened(recorded(), {CHANGELOG: 3, INPUT: 1}, {CHANGELOG: 19, INPUT: 29})
    refusals = list(log_refusals(lost))
    assert [(item.code, item.forceable) for item in refusals] == [("log-shortened", False)] * 2
    assert refusals[0].what == (
        "changelog c[0] ends at offset 19, and had records up to 20 when the snapshot was made"
    )
    assert "the broker lost records" in refusals[0].hint
    assert list(log_refusals(item for item in lost if item.lost != "end")) == []


def whole(manifest: Manifest, lost: tuple[Shortened, ...], end: int, present: int) -> str:
    return written_whole(manifest, lost, {CHANGELOG: end}, {CHANGELOG: present}).get(CHANGELOG, "")


def test_where_all_offsets_since_the_cut_have_their_record_only_what_was_touched_is_written() -> None:
    assert whole(recorded(), (), end=20, present=16) == ""
    assert whole(recorded(), (), end=4, present=0) == "", "nothing came since"


def test_where_a_record_since_the_cut_is_missing_every_row_is_written() -> None:
    """Compaction may have removed a deletion, and nothing names its key any more."""
    said = "1 of 16 offsets of c[0] since the cut have no record any more"
    assert whole(recorded(), (), end=20, present=15) == said
    assert whole(recorded(settled=0), (), end=20, present=16) != ""
    assert written_whole(recorded(), (), {}, {}) == {CHANGELOG: "c[0] was not read"}


def test_where_the_beginning_is_lost_or_unknown_every_row_is_written() -> None:
    lost = shortened(recorded(), {CHANGELOG: 3, INPUT: 1}, {CHANGELOG: 20, INPUT: 30})
    assert "starts at offset 3, and started at 2" in whole(recorded(), lost, end=20, present=16)
    old = recorded(CHANGELOG, INPUT)
    unknown = shortened(old, {CHANGELOG: 0, INPUT: 0}, {CHANGELOG: 20, INPUT: 30})
    assert "is not recorded" in whole(old, unknown, end=20, present=16)


class History:
    """A changelog with a cut, and what a broker has made of it since: compacted, its beginning deleted."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.log = [
            KafkaRecord("c", 0, offset, b"k%d" % rng.randrange(6), rng.choice([b"1", b"2", None]), (), 0)
            for offset in range(rng.randint(2, 20))
        ]
        self.end = len(self.log)
        self.cut = rng.randint(1, self.end)
        self.rows = [Row(CHANGELOG, key, value) for key, value in fold(self.log[: self.cut]).items()]
        latest = {record.key: record.offset for record in self.log}
        clean, purge = rng.randint(0, self.end), rng.randint(0, self.end)
        if rng.random() < 0.7:
            self.log = [
                record
                for record in self.log
                if record.offset == latest[record.key]
                or record.offset >= clean
                or (record.value is not None and rng.random() < 0.3)
            ]
        if (
            rng.random() < 0.5
        ):  # delete.retention.ms has passed, and all that the deletions superseded is gone
            values = {record.key for record in self.log if record.value is not None}
            self.log = [
                record
                for record in self.log
                if record.value is not None or record.key in values or record.offset >= purge
            ]
        self.start = rng.randint(0, self.end) if rng.random() < 0.3 else 0
        self.log = [record for record in self.log if record.offset >= self.start]

    def restored(self, *, judged: bool = True) -> dict[bytes | None, bytes]:
        """Return what the changelog folds to after a restore; `judged` False: as if nothing had ever been lost."""
        manifest = recorded(CHANGELOG, settled=self.cut)
        logs = (LogEntry(topic="c", partition=0, topic_id="ab", start=0, end=self.end),)
        manifest = dataclasses.replace(manifest, logs=logs)
        lost = shortened(manifest, {CHANGELOG: self.start}, {CHANGELOG: self.end})
        counts: Counter[TopicPartition] = Counter()
        (cut,) = manifest.captured.changelogs
        since = (record for record in self.log if record.offset >= self.cut)
        touched = touch(counted(since, counts), {CHANGELOG: cut})
        self.whole = bool(written_whole(manifest, lost, {CHANGELOG: self.end}, counts)) and judged
        appended = records_of_state(
            self.rows, touched, {CHANGELOG: cut}, {CHANGELOG} if self.whole else set()
        )
        return fold([*self.log, *appended])


def fold(records: Iterable[KafkaRecord | NewRecord]) -> dict[bytes | None, bytes]:
    state: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            state.pop(record.key, None)
        else:
            state[record.key] = record.value
    return state


def test_whatever_was_compacted_or_deleted_since_the_changelog_folds_to_the_cut_again() -> None:
    """Over 1,000 histories, row by row. Where nothing was ever written whole, many of them would not."""
    written_whole_in = wrong_without = 0
    for seed in range(1_000):
        history = History(seed)
        cut = {row.key: row.value for row in history.rows}
        assert history.restored() == cut, seed
        written_whole_in += history.whole
        wrong_without += History(seed).restored(judged=False) != cut
    assert 100 < written_whole_in < 900
    assert wrong_without > 50


def test_records_are_counted_as_they_pass() -> None:
    counts: Counter[TopicPartition] = Counter()
    records = [KafkaRecord("c", 0, offset, b"k", None, (), 0) for offset in (4, 6)]
    assert list(counted(records, counts)) == records
    assert counts == {CHANGELOG: 2}
    assert whole(recorded(), (), end=7, present=counts[CHANGELOG]) != ""
