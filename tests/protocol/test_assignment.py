"""R9 and R10: inputs that are assigned and revoked."""

from __future__ import annotations

from snapkafka.protocol import (
    Assigned,
    AssignedInput,
    Dead,
    InputsAssigned,
    InputsRevoked,
    Status,
)
from snapkafka.protocol.snapshots import KEEP_EARLIER, UNKNOWN, Reader, add_reader

from .world import A, Process, World, settle


def test_who_wakes_up_late_owns_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """What a process says of an older generation of its group moves nothing."""
    p, q = pair
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.give(A, generation=2)
    p.give(A, generation=1)
    assert world.fold.owner(("p", A)) == heir.id
    epoch = world.trigger()
    settle(p, q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    assert {cut.receiver for cut in world.fold.captured(epoch).inputs} == {heir.id, q.id}


def test_r10_a_replay_is_reported_until_it_has_caught_up(world: World) -> None:
    """R10: Where effects of inputs past the position are already in the state the report says up to where."""
    p = Process(world, "p", (A,))
    for offset in range(5):
        p.end(p.start(A, offset))
    p.feed(InputsRevoked())
    p.give(A, positions={A: 2})
    found = []
    for name in ("at once", "on the way", "after"):
        epoch = world.trigger(name)
        settle(p)
        ((position,),) = (cut.agents for cut in world.fold.captured(epoch).inputs)
        found.append((position.offset, position.replay_until, world.fold.captured(epoch).replays))
        p.end(p.start(A, position.offset))
        p.end(p.start(A, position.offset + 1))
    assert found == [(2, 5, 1), (4, 5, 1), (6, 0, 0)]


def test_r9_inputs_are_ready_when_the_ledger_has_been_read_up_to_them(world: World) -> None:
    p = Process(world, "p", (A,), assign=False)
    ready = [p.machine.inputs.ready]  # it has none
    given = AssignedInput(tp=A, agents=("agent",), position=0)
    p.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
    ready.append(p.machine.inputs.ready)
    p.catch_up()
    ready.append(p.machine.inputs.ready)
    assert ready == [True, False, True]


def test_r9_inputs_are_not_ready_from_when_they_are_taken_until_those_that_come_are_announced(
    world: World,
) -> None:
    p = Process(world, "p", (A,))
    ready = [p.machine.inputs.ready]
    p.feed(InputsRevoked())
    p.catch_up()
    ready.append(p.machine.inputs.ready)
    p.give(A)
    p.catch_up()
    ready.append(p.machine.inputs.ready)
    assert ready == [True, False, True]


def test_r12_a_new_life_does_not_announce_what_was_taken_away(world: World) -> None:
    p = Process(world, "p", (A,))
    p.catch_up()
    before = len([record for record in world.ledger if isinstance(record, Assigned)])
    p.feed(InputsRevoked())
    world.append(Dead(n=9, dead=p.id))
    p.catch_up()
    p.join()
    p.catch_up()
    assert p.machine.process is not None
    assert len([record for record in world.ledger if isinstance(record, Assigned)]) == before


def test_r10_what_the_recovered_changelog_shows_is_reported_too(world: World) -> None:
    p = Process(world, "p", (), assign=False)
    p.give(A, positions={A: 2}, replay_until=4)
    epoch = world.trigger()
    settle(p)
    ((position,),) = (cut.agents for cut in world.fold.captured(epoch).inputs)
    assert (position.offset, position.replay_until) == (2, 4)


def test_r15_of_more_readers_than_are_remembered_anyone_may_have_read_an_input() -> None:
    """Design, section 11: bounded memories never accuse. A worker that crashes at one record, and is started again and
    again, leaves an effect of it each time."""
    readers: tuple[Reader, ...] = ()
    for process in range(KEEP_EARLIER + 2):
        readers = add_reader(readers, Reader(process, 1_000 + process, process))
        assert (UNKNOWN in readers) == (process > KEEP_EARLIER)
    assert len(readers) == KEEP_EARLIER + 1
    assert add_reader(readers, readers[-1]) == readers
