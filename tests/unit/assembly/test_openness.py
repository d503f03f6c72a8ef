"""What leaves a snapshot open: external records in its inputs, records of outsiders; and its alignment."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.assembly.manifest import alignment_of, judged
from snapkafka.checks import Checked, CutView, LogRecord, Status, outside_senders
from snapkafka.kafka.cluster.external_groups import assumptions, left_open
from snapkafka.manifest import CheckEntry, ExternalEntry, OpenEntry, OutsiderEntry
from snapkafka.protocol import Outcome, Unread
from snapkafka.protocol.captured_snapshot import Outsider
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
        reported = judged(captured, Checked(PASSED, {}, outside=tuple(found)), ())
        assert reported["verdict"] == "VERIFIED_OPEN"
        (line,) = left_open((), (), reported["outsiders"], strict=False)
        assert "process 50" in line and "topic in" in line and (not app or "of app relay" in line)


def test_of_whose_answers_were_taken_in_without_a_cut_of_it_leaves_it_open() -> None:
    """Whenever they came: its epoch does not tell whether it has taken in red records."""
    one, other = (Outsider(process=process, app="relay", taken=True) for process in (50, 51))
    found = outside_senders(CutView(replace(CAPTURED, outsiders=(one, replace(other, left=True)))), WHITE)
    assert found == [OutsiderEntry(process=50, app="relay", topic="")]
    assert judged(CAPTURED, Checked(PASSED, {}, outside=tuple(found)), ())["verdict"] == "VERIFIED_OPEN"
    (line,) = left_open((), (), found, strict=False)
    assert "process 50 of app relay" in line and "topic" not in line


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
    found = Checked(PASSED, {}, (ExternalEntry(topic="in", mixed=mixed),))
    by_apps = replace(CAPTURED, sources=("in",) if declared else ())
    reported = judged(by_apps, found, groups, strict=strict)
    assert reported["verdict"] == verdict
    assert judged(CAPTURED, found, groups, sources=["in"] if declared else [], strict=strict) == reported
    assert reported["external"] == (ExternalEntry(topic="in", mixed=mixed, declared=declared),)
    named = [*left_open((), reported["external"], (), strict=strict)]
    assert bool(named or reported["open"]) == (verdict == "VERIFIED_OPEN")
    assert bool([*assumptions(reported["external"], strict=strict)]) == (not named)


def test_a_topic_that_nobody_had_leaves_a_snapshot_open_and_a_group_without_external_records_does_not() -> (
    None
):
    """What waits in it is in no channel; and nothing came back unseen."""
    unread = replace(CAPTURED, unread=(Unread(app="app", topic="later"),))
    assert judged(unread, Checked(PASSED, {}), ())["verdict"] == "VERIFIED_OPEN"
    assert judged(CAPTURED, Checked(PASSED, {}), (GROUP,), strict=True)["open"] == ()


@pytest.mark.parametrize("alignment", [None, Outcome(aligned=True), Outcome(aligned=False, why="late")])
def test_r16_messages_of_who_had_left_make_a_snapshot_unaligned(alignment: Outcome | None) -> None:
    captured: Any = replace(CAPTURED, alignment=alignment)
    rows = {"messages": 1_200, "channels": 7}
    tables: list[Any] = [SimpleNamespace(name=name, rows=number) for name, number in rows.items()]
    assert alignment_of(captured, tables[1:]) == alignment
    why = "1,200 messages of processes that had left before were in flight"
    late = Outcome(aligned=False, why=why) if alignment is not None and alignment.aligned else alignment
    assert alignment_of(captured, tables) == late
