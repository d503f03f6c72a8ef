"""A log whose end was lost since a snapshot was assembled: found by recorded offsets alone."""

from __future__ import annotations

import dataclasses
from typing import Final

import pytest

from snapkafka.manifest import Manifest
from snapkafka.manifest_entries import LogEntry, SettledEntry
from snapkafka.protocol import Position, TopicPartition
from snapkafka.recovery.shortened import log_refusals
from tests.unit.base.test_manifest import example

CHANGELOG, INPUT = TopicPartition("c", 0), TopicPartition("in", 0)
#: Where the logs of `recorded()` ended.
THEN: Final = {CHANGELOG: 20, INPUT: 30}


def recorded(*, logs: bool = True) -> Manifest:
    """A changelog whose state is the fold below 5, and an input whose position is 3, with the logs of then."""
    found = tuple(
        LogEntry(topic=tp.topic, partition=0, topic_id="ab", start=1, end=end) for tp, end in THEN.items()
    )
    entry = SettledEntry(topic="c", partition=0, offset=4)
    return dataclasses.replace(example(), logs=found if logs else (), settled=(entry,))


def lost(manifest: Manifest, changelog: int, source: int) -> list[str]:
    found = list(log_refusals(manifest, {CHANGELOG: changelog, INPUT: source}))
    assert {(item.code, item.forceable) for item in found} <= {("log-shortened", False)}
    return [item.what.split(" ends")[0] for item in found]


@pytest.mark.parametrize(
    ("changelog", "source", "expected"),
    [
        (20, 30, []),
        (25, 99, []),
        (19, 30, ["changelog c[0]"]),
        (0, 30, ["changelog c[0]"]),  # a disk was set back to nothing
        (20, 29, ["input in[0]"]),
        (19, 29, ["changelog c[0]", "input in[0]"]),
    ],
)
def test_an_end_that_was_there_then_is_missed(changelog: int, source: int, expected: list[str]) -> None:
    assert lost(recorded(), changelog, source) == expected


@pytest.mark.parametrize(
    ("changelog", "source", "expected"),
    [
        (5, 9, []),
        (4, 9, ["changelog c[0]"]),  # below the cut
        (5, 8, ["input in[0]"]),  # below the end that its reader saw at the cut
    ],
)
def test_a_cut_or_a_position_above_the_end_is_found_without_a_record_of_the_log(
    changelog: int, source: int, expected: list[str]
) -> None:
    assert lost(recorded(logs=False), changelog, source) == expected


def test_positions_of_agents_and_what_they_started_above_count() -> None:
    manifest = recorded(logs=False)
    (source,) = manifest.captured.inputs
    agent = Position(agent="a", topic="in", partition=0, offset=12, started_above=(40,))
    captured = dataclasses.replace(
        manifest.captured, inputs=(dataclasses.replace(source, agents=(agent,)),), changelogs=()
    )
    manifest = dataclasses.replace(manifest, captured=captured)
    assert lost(manifest, 20, 41) == []
    assert lost(manifest, 20, 40) == ["input in[0]"]


def test_a_partition_that_does_not_exist_is_judged_elsewhere() -> None:
    assert list(log_refusals(recorded(), {})) == []
