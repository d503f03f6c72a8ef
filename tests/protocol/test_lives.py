"""R12 and R15: processes that lose their identity, or were absent."""

from __future__ import annotations

from snapkafka.protocol.completion import Status
from snapkafka.protocol.events import CameBack, LedgerRecreated, WentAbsent
from snapkafka.protocol.records import Dead

from .world import A, B, Process, World, settle


def test_r15_an_absent_process_aborts_what_it_may_have_mixed(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R15: epochs it may have mixed are contaminated, and its next ledger record for them is `Abort`."""
    p, q = pair
    before = world.trigger("before")
    p.hold_ends = True
    p.catch_up()
    p.feed(WentAbsent())
    during = world.trigger("during")
    settle(p, q)
    p.feed(CameBack())
    settle(p, q)
    assert p.epoch == during
    for epoch in (before, during):
        failure = world.snapshot(epoch).failure
        assert failure is not None
        assert failure.code == "contaminated"
    p.hold_ends = False
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_r15_a_process_that_was_absent_from_the_start_aborts_when_it_has_joined(world: World) -> None:
    q = Process(world, "q", (B,))
    epoch = world.trigger()
    p = Process(world, "p", (A,), join=False)
    p.feed(WentAbsent())
    p.join()
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "contaminated"
    p.feed(CameBack())
    settle(p, q)
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_r12_a_process_that_reads_its_own_dead_takes_a_new_identity(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R12: a process that reads its own `Dead` takes a new identity before it sends again."""
    p, _ = pair
    p.send(B, p.start(A, 0), ack=False)
    world.append(Dead(n=9, dead=p.id))
    p.catch_up()
    assert p.machine.process is None
    p.ack()  # an acknowledgement from the earlier life does no harm
    assert p.machine.colours.sent == {}


def test_a_recreated_ledger_starts_a_new_life(world: World, pair: tuple[Process, Process]) -> None:
    p, _ = pair
    world.trigger()
    p.catch_up()
    p.feed(LedgerRecreated())
    assert p.machine.process is None
    assert p.epoch == 0
    assert p.machine.ledger.end == 0
