"""R11 to R13: when a snapshot is captured, when it failed, what comes after."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    INPUT_UNASSIGNED,
    UNKNOWN_PARTITION,
    Dead,
    StartTimer,
    Status,
    StopAsked,
    TimerExpired,
    TopicPartition,
)

from .world import A, B, Process, World, settle


def test_r7_white_records_in_a_partition_that_nobody_has_named_fail_a_snapshot_but_no_earlier_one(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    event = q.start(B, 0)
    earlier = world.trigger("earlier")
    settle(p, q)
    p.send(TopicPartition("b", 1))
    later = world.trigger("later")
    settle(p, q)
    assert (world.failure(later).code, world.failure(later).culprit) == (UNKNOWN_PARTITION, "b[1]")
    q.end(event)
    settle(p, q)
    assert world.snapshot(earlier).status is Status.CAPTURED


def test_r9_an_input_whose_reader_has_left_is_expected_and_fails_the_snapshot_by_name(
    world: World, pair: tuple[Process, Process]
) -> None:
    """Also one that was added since, and is in no `Hello`: messages may lie in it."""
    p, q = pair
    added = TopicPartition("b", 1)
    other = Process(world, "q", inputs=(B,), assign=False)
    other.give(added, generation=2)
    q.give(B, generation=2)
    assert world.fold.unassigned() == []
    other.feed(StopAsked())
    assert world.fold.unassigned() == world.fold.unassigned(["q"]) == [("q", added)]
    assert world.fold.unassigned(["p"]) == []
    epoch = world.trigger()
    settle(p, q)
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (INPUT_UNASSIGNED, "b[1]")


def test_partitions_added_to_an_app_are_expected_when_it_is_stopped(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R11: ... stopped apps not retired; R10: the trigger cuts them."""
    p, q = pair
    added = TopicPartition("b", 1)
    q.give(B, added, generation=2)
    q.feed(StopAsked())
    epoch = world.trigger()
    settle(p)
    cuts = (cut for cut in world.fold.captured(epoch).inputs if cut.app == "q")
    assert {cut.partition for cut in cuts} == {0, 1}


def test_partitions_of_an_earlier_life_of_an_app_are_not_expected(world: World) -> None:
    """A topic that was made anew with fewer partitions: whoever joined since has counted them."""
    earlier = Process(world, "p", inputs=(A,))
    earlier.give(A, TopicPartition("a", 1), generation=2)
    earlier.feed(StopAsked())
    again = Process(world, "p", inputs=(A,), assign=False)
    again.give(A, generation=3)
    epoch = world.trigger()
    settle(again)
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r12_who_is_slow_says_what_it_waits_for_and_lives(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    before, epoch = world.trigger("before", ttl_ms=1), world.trigger("x", ttl_ms=77)
    q.hold = True
    settle(p, q)
    p.feed(TimerExpired(epoch=epoch))
    assert world.snapshot(epoch).open
    q.feed(TimerExpired(epoch=epoch))
    failure = world.failure(epoch)
    waited = f"process {q.id} of app q: its report is not in the ledger"
    assert (failure.code, failure.culprit) == ("ttl", waited)
    p.catch_up()
    assert p.feed(TimerExpired(epoch=epoch)) == []
    assert not [r for r in world.ledger if isinstance(r, Dead)]
    assert world.snapshot(before).failure is None, "each has its own time"


@pytest.mark.parametrize("what", ["event", "marker", "send", "cut"])
def test_r12_what_a_report_waits_for(world: World, pair: tuple[Process, Process], what: str) -> None:
    p, q = pair
    if what == "event":
        q.start(B, 7)
    elif what == "send":
        q.send(A, ack=False)
    elif what == "cut":
        q.machine.hear = frozenset({"headers"})
    elif what == "marker":
        q.send(A)
        q.hold_markers = True
    epoch = world.trigger()
    settle(p, q)
    q.feed(TimerExpired(epoch=epoch))
    assert (
        world.failure(epoch).culprit.removeprefix(f"process {q.id} of app q: ")
        == {
            "event": "agent agent still runs offset 7 of b[0]",
            "marker": "its marker to a[0] is not acknowledged",
            "send": "what it sent before its cut is not acknowledged",
            "cut": "has not cut",
        }[what]
    )


def test_r12_who_has_neither_reported_nor_said_why_is_dead(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    epoch = world.trigger(ttl_ms=80)
    p.catch_up()
    assert p.feed(TimerExpired(epoch=epoch)) == [StartTimer(epoch=epoch, ttl_ms=20)]
    p.feed(TimerExpired(epoch=epoch))
    assert world.failure(epoch).culprit == f"process {q.id} of app q to report its cut"
    assert [r.dead for r in world.ledger if isinstance(r, Dead)] == [q.id]
    assert p.feed(TimerExpired(epoch=epoch)) == [], "its Abort is on its way"
