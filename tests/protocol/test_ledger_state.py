"""R11 to R13: when a snapshot is captured, when it failed, what comes after."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    INPUT_UNASSIGNED,
    UNKNOWN_PARTITION,
    Status,
    StopAsked,
    TimerExpired,
    TopicPartition,
)

from .world import A, B, Process, World, settle


def test_r7_white_records_in_a_partition_that_nobody_has_named_fail_a_snapshot_but_no_earlier_one(
    world: World, p: Process, q: Process
) -> None:
    event = q.start(B, 0)
    earlier = world.take(p, q, name="earlier")
    p.send(TopicPartition("b", 1))
    later = world.take(p, q, name="later")
    assert (world.failure(later).code, world.failure(later).culprit) == (UNKNOWN_PARTITION, "b[1]")
    q.end(event)
    settle(p, q)
    assert world.snapshot(earlier).status is Status.CAPTURED


def test_r9_an_input_whose_reader_has_left_is_expected_and_fails_the_snapshot_by_name(
    world: World, p: Process, q: Process
) -> None:
    """Also one that was added since, and is in no `Hello`: messages may lie in it."""
    added = TopicPartition("b", 1)
    other = Process(world, "q", inputs=(B,), assign=False)
    other.give(added, generation=2)
    q.give(B, generation=2)
    assert world.fold.unassigned() == []
    other.feed(StopAsked())
    assert world.fold.unassigned() == world.fold.unassigned(["q"]) == [("q", added)]
    assert world.fold.unassigned(["p"]) == []
    epoch = world.take(p, q)
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (INPUT_UNASSIGNED, "b[1]")


@pytest.mark.parametrize("what", ["event", "marker", "send", "cut"])
def test_r12_what_a_report_waits_for(world: World, p: Process, q: Process, what: str) -> None:
    if what == "event":
        q.start(B, 7)
    elif what == "send":
        q.send(A, ack=False)
    elif what == "cut":
        q.machine.hear = frozenset({"headers"})
    elif what == "marker":
        q.send(A)
        q.hold_markers = True
    epoch = world.take(p, q)
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
