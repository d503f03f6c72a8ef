"""R1 to R4: who asks, who turns red and when, what the cut notes, and that nothing is held."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    AssignedInput,
    Cause,
    InputsAssigned,
    InputsRevoked,
    ReadLedgerTo,
    RecordMet,
    Report,
    TopicPartition,
    Trigger,
)
from snapkafka.protocol.captured_snapshot import NeverRead
from snapkafka.protocol.cut import SKIPPED_MAX
from snapkafka.protocol.records import Skipped, WhyUnread

from .world import A, B, Process, World, records


def test_r2_who_asked_hears_its_own_trigger(world: World) -> None:
    """`hear` is for tests and proof; the process that asked for the snapshot cuts for it in any case."""
    q = Process(world, "q", (B,), hear=frozenset({"headers"}))
    epoch = world.append(Trigger(process=q.id, n=5, id="mine")) + 1
    q.catch_up()
    assert q.epoch == epoch
    assert q.turned[-1].heard == "trigger"


def test_r3_of_two_agents_each_has_its_own_position(world: World) -> None:
    """A channel begins where the slower one stands."""
    p = Process(world, "p", (A,), assign=False)
    given = AssignedInput(tp=A, agents=("fast", "slow", "third"), position=2)
    p.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
    p.catch_up()
    for agent, offset in (("fast", 2), ("fast", 4), ("fast", 3), ("third", 2)):
        p.machine.event_started(Cause(agent, A, offset))
        p.machine.event_ended(Cause(agent, A, offset))
    epoch = world.trigger()
    p.catch_up()
    (report,) = records(p, Report)
    assert [(x.agent, x.offset) for x in report.positions] == [("fast", 5), ("slow", 2), ("third", 3)]
    assert world.snapshot(epoch).reports


@pytest.mark.parametrize(("hear", "asks"), [("headers", True), ("ledger", True), ("markers", False)])
def test_r2_who_may_not_hear_it_from_there_reads_on_only_if_the_ledger_may_announce_it(
    world: World, hear: str, asks: bool
) -> None:
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
    p.machine.reading_moved(passed(A, 10, 20))
    p.machine.reading_moved(passed(B, 5, 7))
    p.machine.reading_moved(passed(A, 25, 15))
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
        p.machine.reading_moved(passed(A, 10 * n, 10 * n + 5))
    assert p.machine.positions.skipped[-1] == passed(A, -1, -1)
    assert len(p.machine.positions.skipped) == SKIPPED_MAX + 1
    item = NeverRead(app="p", process=1, topic="a", partition=0, start=-1, end=-1, reason="lost")
    assert item.records == 1 and "unknown" in str(item)
