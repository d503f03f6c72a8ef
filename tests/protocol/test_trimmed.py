"""A process whose ledger begins with a checkpoint: it joins there, and again where it had not read so far (R11)."""

from __future__ import annotations

from snapkafka.protocol import (
    Action,
    AppendHello,
    Hello,
    Joined,
    LedgerBegins,
    LedgerRead,
    Status,
    WorkerProtocol,
)

from .test_ledger_checkpoint import Ledger, trimmed
from .world import Process, World, settle


def begin(ledger: Ledger, process: Process | None = None) -> tuple[WorkerProtocol, list[Action]]:
    """A machine (of a process, or a new one) that is told where its ledger begins, and reads it."""
    machine = WorkerProtocol() if process is None else process.machine
    actions = machine.handle(LedgerBegins(start=ledger[0][0]))
    for offset, record in ledger:
        actions += machine.handle(LedgerRead(offset=offset, record=record))
    return machine, actions


def test_a_process_joins_where_the_ledger_begins_with_a_checkpoint(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It has the epoch of all that was triggered before (R11), and does nothing for what it kept."""
    epoch = world.trigger()
    settle(*pair)
    ledger, _ = trimmed(world, start=len(world.ledger), chunk=2)
    assert len(ledger) > 1
    machine, actions = begin(ledger)
    assert actions == []
    hello = Hello(n=4711, app="p", host="host")
    machine.handle(Joined(hello=hello))
    machine.handle(LedgerRead(offset=machine.ledger.end, record=hello))
    assert machine.process == machine.ledger.end - 1
    assert machine.colours.epoch == epoch
    assert machine.ledger.snapshots[epoch].status is Status.CAPTURED


def test_a_process_that_has_read_so_far_goes_on(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    for start in (0, len(world.ledger)):
        assert p.machine.handle(LedgerBegins(start=start)) == []
    epoch = world.trigger()
    settle(p, q)
    assert world.fold.snapshots[epoch].status is Status.CAPTURED


def test_a_process_that_missed_what_was_deleted_joins_again(
    world: World, pair: tuple[Process, Process]
) -> None:
    """Whatever stood there, it cannot tell: it may have been asked for a cut, or taken for dead."""
    p, q = pair
    before = p.id
    world.trigger()
    q.catch_up()
    ledger, _ = trimmed(world, start=len(world.ledger))
    machine, actions = begin(ledger, p)
    assert [type(action) for action in actions] == [AppendHello]
    assert machine.process is None
    assert before in machine.ledger.processes, (
        "its old life is known, and waited for until it is taken for dead"
    )


def test_a_process_whose_hello_is_on_its_way_when_it_learns_where_the_ledger_begins_waits_for_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It has no id yet that could be void."""
    world.trigger()
    settle(*pair)
    ledger, _ = trimmed(world, start=len(world.ledger))
    machine = WorkerProtocol()
    hello = Hello(n=4711, app="p", host="host")
    machine.handle(Joined(hello=hello))
    assert machine.handle(LedgerBegins(start=ledger[0][0])) == []
    for offset, record in [*ledger, (ledger[-1][0] + 1, hello)]:
        machine.handle(LedgerRead(offset=offset, record=record))
    assert machine.process == machine.ledger.end - 1


def test_where_no_checkpoint_stands_for_what_was_deleted_nobody_joins(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It would not know of what it is red for."""
    world.trigger()
    settle(*pair)
    machine, _ = begin([(at, record) for at, record in enumerate(world.ledger) if at >= 3])
    hello = Hello(n=4711, app="p", host="host")
    machine.handle(Joined(hello=hello))
    assert machine.handle(LedgerRead(offset=machine.ledger.end, record=hello)) == []
    assert machine.process is None
