"""External records in inputs: which topics leave a snapshot open, and what is assumed of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.assembly.manifest import Openness, openness_of, verdict_of
from snapkafka.checks import (
    CheckOutcome,
    CutView,
    ExternalTopic,
    LogRecord,
    OutsideSender,
    Status,
    external_topics,
    outside_senders,
)
from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths
from snapkafka.manifest import ExternalEntry, OpenEntry
from snapkafka.protocol.captured_snapshot import Outsider
from snapkafka.protocol.snapshots import Unread
from tests.worlds.little_log import CAPTURED, EPOCH, LOG, WHITE, shared_changelog

PASSED = [CheckOutcome(check="V1", status=Status.PASSED)]
GROUP = OpenEntry(group="bank", topics=("out",))


def external(offset: int) -> LogRecord:
    return LogRecord("in", 0, offset)


# -- which topics --------------------------------------------------------------------------------------------


def test_a_topic_of_ours_is_not_external() -> None:
    assert external_topics(CutView(CAPTURED), LOG) == []


def test_stamped_and_external_records_are_mixed() -> None:
    """Wherever the stamped ones are known from: the log, or what a sender counted that is read no more."""
    mixed = [ExternalTopic("in", True)]
    assert external_topics(CutView(CAPTURED), [*WHITE, external(5)]) == mixed
    assert external_topics(CutView(CAPTURED), [external(5)]) == mixed
    unsent = CutView(replace(CAPTURED, senders=CAPTURED.senders[1:]))
    assert external_topics(unsent, [*WHITE, external(5)]) == mixed


def test_a_topic_of_external_records_only() -> None:
    view = CutView(replace(CAPTURED, senders=CAPTURED.senders[1:], recorded=()))
    assert external_topics(view, [external(1), external(2)]) == [ExternalTopic("in", False)]
    from_another_system = LogRecord("in", 0, 3, 77, 0, 1)
    assert external_topics(view, [external(1), from_another_system]) == [ExternalTopic("in", False)]


def outsiders_record(offset: int, process: int = 50, epoch: int = 0) -> LogRecord:
    return LogRecord("in", 0, offset, process, epoch, 1)


def test_what_was_received_of_an_outsider_since_the_trigger_leaves_it_open() -> None:
    """Whether the ledger knows who it is, or not; and the verdict names process, app and topic."""
    known = replace(CAPTURED, outsiders=(Outsider(process=50, app="relay"),))
    log = [*(r for r in WHITE if r.offset != 1), outsiders_record(1)]
    for captured, app in ((CAPTURED, ""), (known, "relay")):
        found = outside_senders(CutView(captured), log)
        assert found == [OutsideSender(50, app, "in")]
        openness = openness_of(captured, [], (), outside=found)
        assert verdict_of(captured, PASSED, openness) == "VERIFIED_OPEN"
        (line,) = outside_paths(openness.outsiders)
        assert "process 50" in line and "topic in" in line and (not app or "of app relay" in line)


def test_a_refused_hello_opens_the_next_snapshot_whatever_is_declared() -> None:
    """And a source that is declared takes no outsider from the list: it may write elsewhere."""
    refused = replace(CAPTURED, outsiders=(Outsider(process=50, app="relay", refused=True),))
    for sources in ((), ("in", "elsewhere")):
        openness = openness_of(refused, [], (), sources=sources)
        assert verdict_of(refused, PASSED, openness) == "VERIFIED_OPEN"
        (line,) = outside_paths(openness.outsiders)
        assert line.startswith("process 50 of app relay joined with another ledger key, or none")
    found = outside_senders(CutView(refused), [outsiders_record(1)])
    openness = openness_of(refused, [ExternalTopic("in", True)], (), outside=found, sources=["in"])
    assert [entry.topic for entry in openness.outsiders] == ["", "in"]
    assert verdict_of(refused, PASSED, openness) == "VERIFIED_OPEN"
    later = replace(CAPTURED, outsiders=(Outsider(process=50, app="relay"),))
    assert verdict_of(later, PASSED, openness_of(later, [], ())) == "VERIFIED", (
        "it has sent nothing that was received"
    )


@pytest.mark.parametrize(
    ("outsider", "record"),
    [
        (Outsider(process=50, app="relay", cut=True), outsiders_record(1)),
        (Outsider(process=50, app="relay", left=True), outsiders_record(1)),
        (Outsider(process=50, app="relay"), outsiders_record(0)),  # below the trigger's end
        (Outsider(process=50, app="relay"), outsiders_record(2)),  # not received
        (Outsider(process=50, app="relay"), outsiders_record(1, epoch=EPOCH)),  # red: V2 has it
        (Outsider(process=50, app="relay"), outsiders_record(1, process=EPOCH + 1)),
        (Outsider(process=50, app="relay"), outsiders_record(1)._replace(marker=True)),
        (Outsider(process=50, app="relay"), outsiders_record(1)._replace(topic="elsewhere")),
    ],
)
def test_what_of_an_outsider_leaves_nothing_open(outsider: Outsider, record: LogRecord) -> None:
    """It cut, or had left; or what it sent was not received, or is judged by its header."""
    view = CutView(replace(CAPTURED, outsiders=(outsider,)))
    assert outside_senders(view, [record]) == []


def test_what_is_none_of_the_snapshots_does_not_count() -> None:
    """Past all ends; in a topic that nobody reads; in a changelog, below what its other reader needs."""
    view = CutView(CAPTURED)
    assert external_topics(view, [*WHITE, external(6), external(60), LogRecord("table", 0, 1)]) == []
    log, captured, bounds = shared_changelog()
    assert external_topics(CutView(captured, bounds), log) == [ExternalTopic("table", True)]
    below = [record for record in log if record.offset < 4]
    below += [LogRecord("table", 0, 2)]
    assert external_topics(CutView(captured, bounds), below) == []


# -- what follows --------------------------------------------------------------------------------------------


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
    found = [ExternalTopic("in", mixed)]
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
