"""R4 and R7: report and closing in one record, where nothing white was running at the cut."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    NOBODY,
    Abort,
    Action,
    AppendToLedger,
    Closed,
    CutReport,
    Dead,
    InputsRevoked,
    LedgerState,
    LogEnd,
    MarkerFailed,
    MarkerSent,
    SendMarkers,
    StartTimer,
    Status,
    TimerExpired,
    TopicPartition,
    take_checkpoint,
)

from .world import A, B, Process, World, records, reports, settle


def asked(world: World, name: str = "s", **options: object) -> int:
    """Trigger a snapshot with the log ends of the inputs."""
    ends = tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=5) for tp in (A, B))
    return world.trigger(name, ends=ends, asked_at=len(world.ledger), **options)


def slow_markers(p: Process, monkeypatch: pytest.MonkeyPatch) -> list[SendMarkers]:
    """Let the markers of a process be under way until the test says so."""
    held: list[SendMarkers] = []
    do = p.do

    def keep(asked: object) -> None:
        actions: list[Action] = list(asked)  # type: ignore[call-overload]
        held.extend(action for action in actions if isinstance(action, SendMarkers))
        do([action for action in actions if not isinstance(action, SendMarkers)])

    monkeypatch.setattr(p, "do", keep)
    return held


def test_r7_report_and_closing_are_one_record_where_nothing_white_was_running(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.send(B)
    epoch = asked(world)
    settle(p, q)
    assert [reports(record) for record in world.ledger[epoch:]] == [True, True]
    (closed,) = records(p, Closed)
    (report,) = closed.cut
    assert not records(p, CutReport)
    assert (closed.report, closed.n, report.previous) == (NOBODY, report.n, 0)
    view = world.snapshot(epoch)
    assert view.status is Status.CAPTURED
    assert view.reports[p.id] == (view.closed[p.id][0], report)
    assert [(cut.topic, cut.receiver) for cut in world.fold.captured(epoch).inputs] == [
        ("a", p.id),
        ("b", q.id),
    ]


def test_r4_a_process_with_running_white_events_reports_at_once(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, _ = pair
    white = p.start(A, 0)
    epoch = asked(world)
    p.catch_up()
    assert [report.epoch for report in records(p, CutReport)] == [epoch]
    p.end(white)
    p.catch_up()
    (closed,) = records(p, Closed)
    assert not closed.cut
    assert closed.report == epoch


def test_r4_a_process_that_has_to_ask_for_log_ends_reports_at_once(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, _ = pair
    p.hold_ends = True
    epoch = world.trigger()
    p.catch_up()
    assert [report.epoch for report in records(p, CutReport)] == [epoch]


def test_r7_the_one_record_waits_for_the_markers(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    p, q = pair
    p.send(B)
    held = slow_markers(p, monkeypatch)
    epoch = asked(world)
    settle(p, q)
    assert not records(p, Closed)
    assert [(wait.what, wait.process) for wait in world.fold.waiting(epoch) if wait.what != "input"] == [
        ("report", p.id)
    ]
    assert [action.tps for action in held] == [(B,)]
    p.feed(MarkerSent(epoch=epoch, tp=B, offset=1))
    assert [closed.epoch for closed in records(p, Closed)] == [epoch]
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r12_a_report_that_waits_is_appended_after_half_of_the_time(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has not reported when the time is over is taken for dead, and this one lives."""
    p, q = pair
    p.send(B)
    slow_markers(p, monkeypatch)
    epoch = asked(world, ttl_ms=800)
    settle(p, q)
    assert [action.ttl_ms for action in p.asked if isinstance(action, StartTimer)] == [400, 800]
    p.feed(TimerExpired(epoch=epoch))
    assert [report.epoch for report in records(p, CutReport)] == [epoch]
    assert world.snapshot(epoch).open
    settle(p, q)
    q.feed(TimerExpired(epoch=epoch))  # the first one of q: its report is in the ledger
    q.feed(TimerExpired(epoch=epoch))
    assert world.failure(epoch).reason.endswith("to finish events that began before the cut")
    assert not records(q, Dead)


def test_r12_the_timer_of_a_report_aborts_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """It has closed; others take their time."""
    p, _ = pair
    epoch = asked(world)
    p.catch_up()
    assert records(p, Closed)
    assert p.feed(TimerExpired(epoch=epoch)) == []
    p.feed(TimerExpired(epoch=epoch))
    assert [abort.code for abort in records(p, Abort)] == ["ttl"]


def test_r7_a_released_report_counts_with_a_closed_of_its_own(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    p, q = pair
    p.send(B)
    slow_markers(p, monkeypatch)
    epoch = asked(world)
    settle(p, q)
    p.feed(TimerExpired(epoch=epoch))
    settle(p, q)
    p.feed(MarkerSent(epoch=epoch, tp=B, offset=1))
    (report,), (closed,) = records(p, CutReport), records(p, Closed)
    assert not closed.cut
    assert closed.n > report.n
    assert world.ledger[closed.report] == report
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r9_one_record_about_inputs_that_moved_meanwhile_is_void(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, heir = Process(world, "p", (A,)), Process(world, "p", (), assign=False)
    other = Process(world, "q", (B,))
    settle(p, heir, other)
    p.send(B)
    slow_markers(p, monkeypatch)
    epoch = asked(world)
    p.catch_up()
    p.feed(InputsRevoked())
    heir.give(A, generation=2)
    settle(heir, other)
    assert world.snapshot(epoch).open
    p.feed(MarkerSent(epoch=epoch, tp=B, offset=1))
    assert world.failure(epoch).code == "input-moved"


def test_r7_a_marker_that_fails_leaves_nothing_of_the_one_record(
    world: World, pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    p, _ = pair
    p.send(B)
    slow_markers(p, monkeypatch)
    epoch = asked(world)
    p.catch_up()
    p.feed(MarkerFailed(epoch=epoch, tp=B, seq=1, reason="no"))
    assert [abort.code for abort in records(p, Abort)] == ["marker-failed"]
    assert p.feed(TimerExpired(epoch=epoch)) == []
    assert not records(p, CutReport)


def test_r11_a_copy_of_the_one_record_is_dropped_and_a_checkpoint_keeps_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    epoch = asked(world)
    settle(p, q)
    view = world.snapshot(epoch)
    before = dict(view.closed), dict(view.reports)
    world.append(records(p, Closed)[0])
    assert (view.closed, view.reports) == before
    later = LedgerState(start=len(world.ledger))
    for offset, record in enumerate(take_checkpoint(enumerate(world.ledger), first_n=1), len(world.ledger)):
        later.apply(offset, record)
    assert later.captured(epoch).processes == world.fold.captured(epoch).processes
    assert later.captured(epoch).senders == world.fold.captured(epoch).senders


def test_r7_what_is_appended_has_what_it_needs(world: World, pair: tuple[Process, Process]) -> None:
    """No partition is in the record twice, though the report names the table partitions as well."""
    p, q = pair
    changelog = TopicPartition("p-t-changelog", 0)
    p.send(changelog)
    epoch = asked(world)
    settle(p, q)
    assert [(cut.app, cut.end) for cut in world.fold.captured(epoch).changelogs] == [("p", 1), ("q", 0)]
    assert [type(action.record) for action in p.asked if isinstance(action, AppendToLedger)][-1] is Closed
