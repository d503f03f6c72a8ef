"""The verdict of a snapshot whose inputs have external records, or records of outsiders."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.assembly.manifest import Openness, openness_of, verdict_of
from snapkafka.checks import CutView, LogRecord, Status, outside_senders
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths
from snapkafka.manifest import CheckEntry, ExternalEntry, OpenEntry, OutsiderEntry
from snapkafka.protocol import Outsider, Unread
from tests.worlds.little_log import CAPTURED, WHITE

PASSED = [CheckEntry(name="V1", status=Status.PASSED)]
GROUP = OpenEntry(group="bank", topics=("out",))


def outsiders_record(offset: int, process: int = 50, epoch: int = 0) -> LogRecord:
    return LogRecord("in", 0, offset, process, epoch, 1)


def test_what_was_received_of_an_outsider_since_the_trigger_leaves_it_open() -> None:
    """Whether the ledger knows who it is, or not; and the verdict names process, app and topic."""
    known = replace(CAPTURED, outsiders=(Outsider(process=50, app="relay"),))
    log = [*(r for r in WHITE if r.offset != 1), outsiders_record(1)]
    for captured, app in ((CAPTURED, ""), (known, "relay")):
        found = outside_senders(CutView(captured), log)
        assert found == [OutsiderEntry(process=50, app=app, topic="in")]
        openness = openness_of(captured, [], (), outside=found)
        assert verdict_of(captured, PASSED, openness) == "VERIFIED_OPEN"
        (line,) = outside_paths(openness.outsiders)
        assert "process 50" in line and "topic in" in line and (not app or "of app relay" in line)


@pytest.mark.parametrize(
    ("mixed", "declared", "strict", "groups", "verdict"),
    [
        (True, False, False, (), "VERIFIED_OPEN"),
        (True, True, False, (), "VERIFIED"),
        (True, True, True, (), "VERIFIED"),
        (True, True, False, (GROUP,), "VERIFIED"),
        (False, False, False, (), "VERIFIED"),
        (False, False, True, (), "VERIFIED_OPEN"),
        (False, True, True, (), "VERIFIED"),
        (False, False, False, (GROUP,), "VERIFIED_OPEN"),
    ],
)
def test_what_leaves_a_snapshot_open(
    mixed: bool, declared: bool, strict: bool, groups: tuple[OpenEntry, ...], verdict: str
) -> None:
    found = [ExternalEntry(topic="in", mixed=mixed)]
    by_apps = replace(CAPTURED, sources=("in",) if declared else ())
    openness = openness_of(by_apps, found, groups, strict=strict)
    assert verdict_of(by_apps, PASSED, openness) == verdict
    by_command = openness_of(CAPTURED, found, groups, sources=["in"] if declared else [], strict=strict)
    assert by_command == openness
    assert openness.external == (ExternalEntry(topic="in", mixed=mixed, declared=declared),)
    named = [*open_topics(openness.external, strict=strict)]
    assert bool(named or openness.groups) == (verdict == "VERIFIED_OPEN")
    assert bool([*assumptions(openness.external, strict=strict)]) == (not named)


def test_a_topic_that_nobody_had_leaves_a_snapshot_open() -> None:
    """What waits in it is in no channel."""
    unread = replace(CAPTURED, unread=(Unread(app="app", topic="later"),))
    assert verdict_of(unread, PASSED, openness_of(unread, [], ())) == "VERIFIED_OPEN"


def test_without_external_records_nothing_came_back_unseen() -> None:
    assert openness_of(CAPTURED, [], (GROUP,), strict=True) == Openness((), (), True)
