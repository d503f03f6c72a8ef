"""R3: an agent that is handed a record after a later one makes void what a cut had noted; nobody else is troubled."""

from __future__ import annotations

from snapkafka.protocol import (
    OUT_OF_ORDER,
    Abort,
    Cause,
    CutReport,
    InputsRevoked,
    Status,
    TimerExpired,
    TopicPartition,
)
from snapkafka.protocol.cut import NOTED_MAX

from .world import A, B, Process, World, records, settle


def test_a_record_that_comes_after_a_later_one_fails_the_open_snapshot_and_names_the_channel(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    running = [p.start(A, 0), p.start(A, 2)]
    epoch = world.trigger()
    settle(p, q)
    assert world.snapshot(epoch).open, "white events run"
    p.start(A, 1)
    settle(p, q)
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert (failure.code, failure.culprit) == (OUT_OF_ORDER, str(A))
    assert "handed offset 1 of" in failure.reason
    for event in running:
        p.end(event)
    settle(p, q)
    later = world.trigger("next")
    p.end(Cause("agent", A, 1))
    settle(p, q)
    assert world.snapshot(later).status is Status.CAPTURED, "the next one is none the worse"


def test_a_snapshot_that_is_captured_by_then_stays_so_and_nobody_can_prove_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.end(p.start(A, 2))
    first, second = world.trigger("first"), world.trigger("second")
    settle(p, q)
    p.start(A, 1)
    settle(p, q)
    for epoch in (first, second):
        assert world.snapshot(epoch).status is Status.CAPTURED
        assert "offset 1" in world.fold.captured(epoch).contaminated


def test_only_the_cuts_that_took_it_for_started_are_void(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.end(p.start(A, 0))
    before = world.trigger("before")
    settle(p, q)
    p.end(p.start(A, 3))
    after = world.trigger("after")
    settle(p, q)
    p.start(A, 1)
    settle(p, q)
    assert not world.snapshot(before).contaminated, "it noted 1 as the first that was not started"
    assert world.snapshot(after).contaminated


def test_each_cut_is_reported_once(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.end(p.start(A, 5))
    world.trigger()
    settle(p, q)
    for offset in (1, 2, 3):
        p.end(p.start(A, offset))
    settle(p, q)
    assert len(records(p, Abort)) == 1


def test_what_fails_for_another_reason_is_not_reported_again(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.end(p.start(A, 5))
    epoch = world.trigger()
    world.append(Abort(n=1, epoch=epoch, code="ttl", reason="too slow"))
    settle(p, q)
    p.start(A, 1)
    settle(p, q)
    assert not records(p, Abort)
    world.append(Abort(n=2, epoch=epoch, code=OUT_OF_ORDER, reason="another process had not read that"))
    world.append(Abort(n=3, epoch=epoch + 100, code=OUT_OF_ORDER, reason="of no snapshot at all"))
    assert world.snapshot(epoch).contaminated == "", "it failed, and for what came first"


def test_what_this_process_has_given_up_on_is_not_reported_again(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.start(A, 5)
    epoch = world.trigger()
    settle(p, q)
    p.feed(TimerExpired(epoch=epoch))
    p.start(A, 1)
    settle(p, q)
    assert [record.code for record in records(p, Abort)] == ["ttl"]


def test_other_agents_and_inputs_go_their_own_way(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.end(p.start(A, 5))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.event_started(Cause("other", A, 1)))
    p.start(TopicPartition("A", 1), 1)
    q.start(B, 0)
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED and not world.snapshot(epoch).contaminated


def test_a_record_that_goes_on_in_a_batch_does_not_start_again(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    first, second = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.batch_started([first, second]))
    for event in (first, second):
        p.end(event)
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED and not world.snapshot(epoch).contaminated


def test_a_batch_may_hold_a_record_that_comes_too_late(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.end(p.start(A, 1))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.batch_started([Cause("agent", A, 0), Cause("agent", A, 2)]))
    settle(p, q)
    assert world.snapshot(epoch).contaminated


def test_what_is_run_again_after_an_assignment_is_a_replay_and_makes_nothing_void(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.end(p.start(A, 4))
    epoch = world.trigger()
    settle(p, q)
    p.feed(InputsRevoked())
    p.give(A, positions={A: 2}, generation=2)
    settle(p, q)
    for offset in (2, 3, 4):
        p.end(p.start(A, offset))
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED and not world.snapshot(epoch).contaminated


def test_what_was_left_in_a_queue_and_runs_before_the_records_of_the_new_assignment(
    world: World, pair: tuple[Process, Process]
) -> None:
    """What Faust does now and then after a rebalance: offset 5 was still in hand, then it reads from 3 on."""
    p, q = pair
    p.feed(InputsRevoked())
    p.give(A, positions={A: 3}, generation=2)
    settle(p, q)
    p.end(p.start(A, 5))
    epoch = world.trigger()
    settle(p, q)
    p.start(A, 3)
    settle(p, q)
    assert world.snapshot(epoch).contaminated


def test_memory_of_cuts_is_bounded(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.end(p.start(A, 5))
    for k in range(NOTED_MAX + 1):
        world.trigger(str(k))
        settle(p, q)
    p.start(A, 1)
    settle(p, q)
    assert len(records(p, Abort)) == NOTED_MAX


def test_r10_what_was_cut_where_it_starts_is_void_if_something_below_starts_later(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R10: the new reader says where the input starts, and is handed a record from before that; of the snapshot just
    before, which the old reader cut, it has said nothing."""
    p, _ = pair
    before, epoch = world.trigger("before"), world.trigger("this")
    p.catch_up(before)
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.give(A, positions={A: 7}, generation=2)
    assert [(report.epoch, report.supplement) for report in records(heir, CutReport)] == [(epoch, True)]
    assert epoch == before + 1
    heir.start(A, 3)
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == OUT_OF_ORDER
    assert [record.epoch for record in records(heir, Abort)] == [epoch]
