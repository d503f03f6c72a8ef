"""R4 and R7: report and closing in one record, where nothing white was running at the cut."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    Abort,
    Action,
    CutReport,
    Dead,
    LogEnd,
    MarkerFailed,
    SendMarkers,
    StartTimer,
    TimerExpired,
)

from .world import A, B, Process, World, records, settle


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
