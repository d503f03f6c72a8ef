"""R1 to R4: who asks, who turns red and when, what the cut notes, and that nothing is held."""

from __future__ import annotations

import pytest

from snapkafka.protocol import Cause, InputsRevoked, RecordMet, Report, Status, TopicPartition
from snapkafka.protocol.actions import ReadLedgerTo
from snapkafka.protocol.captured_snapshot import NeverRead
from snapkafka.protocol.cut import SKIPPED_MAX
from snapkafka.protocol.records import OUT_OF_ORDER, Abort, Skipped, WhyUnread

from .steps import Play
from .world import A, B, Process, World, log_ends, records, settle


def test_r3_of_two_agents_each_has_its_own_position(world: World) -> None:
    """A channel begins where the slower one stands."""
    p = Process(world, "p", (A,), assign=False)
    p.give(A, positions={A: 2}, agents=("fast", "slow", "third"))
    for agent, offset in (("fast", 2), ("fast", 4), ("fast", 3), ("third", 2)):
        p.machine.event_started(Cause(agent, A, offset))
        p.machine.event_ended(Cause(agent, A, offset))
    epoch = world.trigger()
    p.catch_up()
    (report,) = records(p, Report)
    assert [(x.agent, x.offset) for x in report.positions] == [("fast", 5), ("slow", 2), ("third", 3)]
    assert world.snapshot(epoch).reports


@pytest.mark.parametrize(("hear", "asks"), [("headers", True), ("ledger", True), ("markers", False)])
def test_r2_who_may_not_hear_it_reads_on_if_the_ledger_may_tell(world: World, hear: str, asks: bool) -> None:
    """`hear` is for tests and proof: by headers, or by the ledger itself; who hears markers only takes red in."""
    q = Process(world, "q", (B,), hear=frozenset({hear}))
    world.trigger()
    epoch = len(world.ledger)
    assert q.machine.handle(RecordMet(epoch=epoch)) == ([ReadLedgerTo(offset=epoch - 1)] if asks else [])


def passed(tp: TopicPartition, start: int, end: int, reason: WhyUnread = "lost") -> Skipped:
    return Skipped(topic=tp.topic, partition=tp.partition, start=start, end=end, reason=reason)


def test_r3_who_goes_back_reads_what_it_had_passed(world: World) -> None:
    p = Process(world, "p", (A, B))
    positions = p.machine.positions
    p.machine.positions.moved(passed(A, 10, 20))
    p.machine.positions.moved(passed(B, 5, 7))
    p.machine.positions.moved(passed(A, 25, 15))
    assert list(positions.skipped) == [passed(A, 10, 15), passed(B, 5, 7)]
    p.start(A, 15)
    assert (positions.reads_at(A), positions.reads_at(TopicPartition("z", 0))) == (16, -1)
    p.feed(InputsRevoked())
    assert list(positions.skipped) == [passed(A, 10, 15)], "nothing behind the other one was started"
    p.give(A, positions={A: 12})
    assert list(positions.skipped) == [passed(A, 10, 12)]


def test_r3_what_cannot_be_told_or_is_too_much_is_one_item(world: World) -> None:
    p = Process(world, "p", (A,))
    for n in range(SKIPPED_MAX + 5):
        p.machine.positions.moved(passed(A, 10 * n, 10 * n + 5))
    assert p.machine.positions.skipped[-1] == passed(A, -1, -1)
    assert len(p.machine.positions.skipped) == SKIPPED_MAX + 1
    item = NeverRead(app="p", process=1, topic="a", partition=0, start=-1, end=-1, reason="lost")
    assert item.records == 1 and "unknown" in str(item)


@pytest.mark.parametrize(("kept", "until"), [(None, 3), (2, 2), (1, 0)])
def test_r10_undone_events_are_no_replays(world: World, kept: int | None, until: int) -> None:
    p = Process(world, "p", (A,))
    for offset in range(3):
        p.end(p.start(A, offset))
    undone_from = None if kept is None else log_ends((A, kept))
    p.feed(InputsRevoked(undone_from=undone_from))
    p.give(A, positions={A: 1})
    assert [position.replay_until for position in p.machine.positions.note()] == [until]


# -- R3: an agent that is handed a record after a later one makes void what a cut had noted ------------------------


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
def test_r3_records_out_of_order_leave_it_captured(world: World, p: Process, q: Process, name: str) -> None:
    steps, void = ORDERS[name]
    play = Play(world, p, q)
    play.run(steps)
    play.finish()
    assert {world.snapshot(epoch).status for epoch in play.epochs[1:]} == {Status.CAPTURED}
    found = [world.fold.captured(epoch).contaminated for epoch in play.epochs[1:]]
    assert [bool(why) for why in found] == void
    assert len(records(play.p, Abort)) == sum(void)


def test_a_record_after_a_later_one_fails_the_open_snapshot(world: World, p: Process, q: Process) -> None:
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
