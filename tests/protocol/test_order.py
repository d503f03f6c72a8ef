"""R3: an agent that is handed a record after a later one makes void what a cut had noted; nobody else is troubled."""

from __future__ import annotations

import pytest

from snapkafka.protocol import OUT_OF_ORDER, Abort, Cause, Status

from .steps import Play
from .world import A, Process, World, records, settle

#: What a process does (`Play`), and which snapshots nobody can prove any more: those that took for started what starts
#: only later.
ORDERS = {
    "all that were captured by then": ("run 2; cut; cut; start 1", [True, True]),
    "not one that noted it as not started": ("run 0; cut; run 3; cut; start 1", [False, True]),
    "each is reported once": ("run 5; cut; run 1 2 3", [True]),
    "a record that goes on in a batch": ("start 0 1; cut; batch 0 1", [False]),
    "one that comes in a batch": ("run 1; cut; batch 0 2", [True]),
    "a replay after an assignment": ("run 4; cut; give 2; run 2 3 4", [False]),
    # What Faust does now and then after a rebalance: offset 5 was still in hand, then it reads from 3 on.
    "what was left in a queue and runs before the new records": ("give 3; run 5; cut; start 3", [True]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_r3_a_captured_snapshot_stays_so_and_says_that_records_came_out_of_order(
    world: World, p: Process, q: Process, name: str
) -> None:
    steps, void = ORDERS[name]
    play = Play(world, p, q)
    play.run(steps)
    play.finish()
    assert {world.snapshot(epoch).status for epoch in play.epochs[1:]} == {Status.CAPTURED}
    found = [world.fold.captured(epoch).contaminated for epoch in play.epochs[1:]]
    assert [bool(why) for why in found] == void
    assert len(records(play.p, Abort)) == sum(void)


def test_a_record_that_comes_after_a_later_one_fails_the_open_snapshot_and_names_the_channel(
    world: World, p: Process, q: Process
) -> None:
    running = [p.start(A, 0), p.start(A, 2)]
    epoch = world.take(p, q)
    assert world.snapshot(epoch).open, "white events run"
    p.start(A, 1)
    settle(p, q)
    failure = world.failure(epoch)
    assert (failure.code, failure.culprit) == (OUT_OF_ORDER, str(A))
    assert "handed offset 1 of" in failure.reason
    for event in running:
        p.end(event)
    settle(p, q)
    later = world.trigger("next")
    p.end(Cause("agent", A, 1))
    settle(p, q)
    assert world.snapshot(later).status is Status.CAPTURED, "the next one is none the worse"
