"""R9 and R10: inputs that are assigned and revoked."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    INPUT_MOVED,
    Assigned,
    AssignedInput,
    CameBack,
    Dead,
    InputsAssigned,
    InputsRevoked,
    Status,
    TopicPartition,
    WentAbsent,
)
from snapkafka.protocol.readers import KEEP_EARLIER, UNKNOWN, Reader, add_reader

from .world import A, Process, World, settle


@pytest.mark.parametrize("scope", [(), ("p",), ("q",)])
def test_r9_a_snapshot_fails_when_an_input_is_assigned_in_its_scope(
    world: World, pair: tuple[Process, Process], scope: tuple[str, ...]
) -> None:
    p, q = pair
    p.hold = q.hold = True
    epoch = world.trigger(apps=scope)
    settle(p, q)
    Process(world, "p", (), assign=False).give(A, generation=2)
    if scope == ("q",):
        assert world.snapshot(epoch).open
    else:
        assert (world.failure(epoch).code, world.failure(epoch).culprit) == (INPUT_MOVED, "a[0]")
        assert world.snapshot(epoch).failed_at == len(world.ledger) - 1


def test_r9_who_has_lost_an_input_and_does_not_know_it_fails_the_snapshot_by_its_report(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    heir = Process(world, "p", (), assign=False)
    heir.give(A, generation=2)
    epoch = world.trigger()
    p.catch_up()
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (INPUT_MOVED, "a[0]")
    p.feed(InputsRevoked())
    p.give(generation=2)
    epoch = world.trigger("next")
    settle(p, q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r9_what_was_revoked_and_is_another_ones_already_is_reported_by_that_one(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.feed(InputsRevoked())
    epoch = world.trigger()
    settle(p, q)
    assert world.failure(epoch).code == INPUT_MOVED, (
        "in the ledger it is still that of p, which reports nothing"
    )


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


def test_of_what_one_says_that_wakes_up_late_the_rest_is_heard(world: World) -> None:
    """It is not the owner of what moved on since; what nobody else was given since, it has."""
    other = TopicPartition("a", 1)
    p = Process(world, "p", (A, other))
    heir = Process(world, "p", (), assign=False)
    heir.give(A, generation=3)
    p.give(A, other, generation=2)
    assert [world.fold.owner(("p", tp)) for tp in (A, other)] == [heir.id, p.id]
    assert world.fold.readers["p", other][-1].offset == p.machine.inputs.assigned


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


def test_r10_who_started_nothing_replays_nothing(world: World) -> None:
    """Nor does who stands where it stood before."""
    p = Process(world, "p", (A,))
    p.feed(InputsRevoked())
    p.give(A)
    assert [q.replay_until for q in p.machine.positions.note()] == [0]
    p.end(p.start(A, 0))
    p.feed(InputsRevoked())
    p.give(A)
    p.end(p.start(A, 0))
    assert [(q.offset, q.replay_until) for q in p.machine.positions.note()] == [(1, 0)]


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


@pytest.mark.parametrize(("announced", "position"), [(2, 4), (4, 4), (6, 6)])
def test_r15_what_starts_before_the_inputs_are_reported_is_of_them(
    world: World, announced: int, position: int
) -> None:
    """The driver could not tell in time where they start, and they went on. It tells a position of some moment since:
    what has started by itself lies above, or all below the position is done."""
    p = Process(world, "p", (A,))
    p.catch_up()
    p.feed(InputsRevoked())
    p.feed(WentAbsent())
    for offset in (2, 3):
        p.end(p.start(A, offset))
    given = AssignedInput(tp=A, agents=("agent",), position=announced)
    p.feed(InputsAssigned(generation=2, inputs=(given,), changelogs=()))
    p.catch_up()
    p.feed(CameBack())
    epoch = world.trigger()
    p.catch_up()
    assert [(q.offset, q.replay_until) for q in world.snapshot(epoch).reports[p.id][1].positions] == [
        (position, 0)
    ]


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


def test_r10_a_replay_is_remembered_while_somebody_else_has_the_input(world: World) -> None:
    """It comes back to where it was: what was started here before still goes on, and happens twice."""
    p = Process(world, "p", (A,))
    p.start(A, 0)
    p.feed(InputsRevoked())
    p.give()
    p.feed(InputsRevoked())
    p.give(A)
    assert [q.replay_until for q in p.machine.positions.note()] == [1]


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
