"""R9 and R10: inputs that come and go while a snapshot runs."""

from __future__ import annotations

import pytest

from snapkafka.checks import read_before
from snapkafka.protocol import (
    Abort,
    AppendToLedger,
    Assigned,
    AssignedInput,
    CameBack,
    ChangelogEnd,
    Closed,
    CutReport,
    Dead,
    Failure,
    InputCut,
    InputsAssigned,
    InputsRevoked,
    MarkerFailed,
    Position,
    Status,
    TopicPartition,
    WentAbsent,
    ownership,
)
from snapkafka.protocol.ownership import KEEP_EARLIER, UNKNOWN, Owner

from .world import A, B, Process, World, records, reports, settle


def test_r10_a_white_input_given_to_a_red_process_is_cut_where_it_starts(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R10: position after the old owner's commit, and the recovered changelog end, in a supplementary report."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    assert heir.epoch == epoch, "born after the trigger: red by birth"
    heir.give(A, positions={A: 7}, recovered=5)
    settle(p, q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    captured = world.fold.captured(epoch)
    (cut,) = (cut for cut in captured.inputs if cut.topic == "a")
    assert (cut.position, cut.receiver) == (7, heir.id)
    (report,) = records(heir, CutReport)
    assert (report.previous, report.epoch, report.heard) == (epoch - 1, epoch, "assigned"), (
        "for this one alone"
    )
    assert report.supplement
    assert report.positions == (Position(agent="agent", topic="a", partition=0, offset=7),)
    assert report.changelogs == (TopicPartition("p-t-changelog", 0),)
    assert [closed.epoch for closed in records(heir, Closed)] == [epoch]
    assert {(c.process, c.end) for c in captured.changelogs if c.app == "p"} == {(heir.id, 5)}


def test_r10_a_supplement_counts_only_with_its_closed(world: World, pair: tuple[Process, Process]) -> None:
    """A process that is lost between the two fails the snapshot: nobody else can cut what it has read in red."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsRevoked())
    settle(p, q)
    heir = Process(world, "p", (), assign=False)
    heir.deaf_to_itself = True
    heir.give(A)
    assert world.snapshot(epoch).supplements
    world.append(Dead(n=2, dead=Process(world, "p").id))
    assert world.snapshot(epoch).open, "one that has no part in it"
    world.append(Dead(n=1, dead=heir.id))
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "process-lost"


def test_r9_an_input_that_was_read_in_red_and_moves_on_uncut_fails_the_snapshot(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R9: only who read it first in red knows where; its supplement that lands after the move is void."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsRevoked())
    settle(p, q)
    heir = Process(world, "p", (), assign=False)
    heir.hold = True  # its supplement is under way
    heir.give(A)
    third = Process(world, "p", (), assign=False)
    third.give(A, generation=2)
    assert world.snapshot(epoch).failure == Failure(
        code="input-moved",
        reason="a rebalance moved input a[0] of app p before it was cut",
        culprit="a[0]",
    )
    assert (
        world.snapshot(epoch).failed_at
        == world.fold.processes[third.id].assigned
        == third.machine.inputs.assigned
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
    assert world.fold.owners["p", other].offset == p.machine.inputs.assigned
    assert len(world.fold.owners) == len({*world.fold.owners})


def test_r9_a_late_report_after_a_move_is_void(world: World) -> None:
    p = Process(world, "p", (A,))
    heir = Process(world, "p", (A,), assign=False)
    settle(p, heir)
    epoch = world.trigger()
    heir.give(A)  # reads the ledger up to its own Assigned, and cuts before it runs the input
    assert heir.epoch == epoch
    p.catch_up()  # p's report was made under an Assigned that is not the latest for A any more
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure == Failure(
        code="input-moved",
        reason=f"a rebalance moved input a[0] while process {p.id} (p on host, pid 0) was reporting its cut",
        culprit="a[0]",
    )
    reported = next(at for at, r in enumerate(world.ledger) if reports(r) and r.process == p.id)
    assert world.snapshot(epoch).failed_at == reported


@pytest.mark.parametrize("zombie_first", [False, True])
def test_r11_who_lost_its_inputs_before_the_trigger_claims_none_of_them(
    world: World, *, zombie_first: bool
) -> None:
    """R11: inputs whose owner was known by a later generation before the trigger are not claimed by the old one: a
    worker that crashed, left its group, and hangs in its shutdown."""
    zombie, other = Process(world, "p", (A,)), Process(world, "q", (B,))
    zombie.send(B)
    heir = Process(world, "p", (), assign=False)
    heir.give(A, generation=2, positions={A: 7}, recovered=5)
    for n in range(3):
        epoch = world.trigger(f"s{n}")
        settle(*((zombie, heir) if zombie_first else (heir, zombie)), other)
        assert world.snapshot(epoch).failure is None, world.snapshot(epoch).failure
        captured = world.fold.captured(epoch)
        assert [(c.position, c.receiver) for c in captured.inputs if c.topic == "a"] == [(7, heir.id)]
        assert {(c.process, c.end) for c in captured.changelogs if c.app == "p"} == {(heir.id, 5)}


@pytest.mark.parametrize("cut_since", [True, False])
def test_r9_an_input_that_came_and_went_while_a_report_was_on_its_way_fails_the_snapshot(
    world: World, cut_since: bool
) -> None:
    """Its reader was red, and nobody could know: whoever has it now cut it behind what was read in red, or would."""
    p, q = Process(world, "p", (A,)), Process(world, "p", (A,), assign=False)
    settle(p, q)
    epoch = world.trigger()
    p.feed(InputsRevoked())
    q.hold = True
    q.give(
        A, generation=2
    )  # q cuts, with no inputs, before it has read its own Assigned; the report is on its way
    q.end(q.start(A, 0))
    q.feed(InputsRevoked())
    p.hold = not cut_since
    p.give(A, generation=3, positions={A: 1})
    settle(p)
    assert bool(world.snapshot(epoch).claims) is cut_since, "p has cut the input where it got it"
    let_land(q)
    assert world.snapshot(epoch).failure == Failure(
        code="input-moved",
        reason=f"a rebalance moved input a[0] while process {q.id} (p on host, pid 0) was reporting its cut",
        culprit="a[0]",
    )


def test_r9_what_was_cut_before_it_came_and_went_stays_cut(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "p", (A,), assign=False)
    settle(p, q)
    epoch = world.trigger()
    settle(p)
    q.hold = True
    q.give(A, generation=2)
    q.feed(InputsRevoked())
    p.give(A, generation=3)
    let_land(q)
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED


def let_land(process: Process) -> None:
    """The reports that were held back are in the ledger now."""
    process.hold = False
    for action in process.asked:
        if isinstance(action, AppendToLedger) and reports(action.record):
            process.world.append(action.record)


def test_r9_a_process_cuts_for_the_highest_epoch_of_its_inputs(world: World) -> None:
    """R9: reads the ledger up to it, and cuts for the highest epoch any of them is already cut for."""
    p = Process(world, "p", (A,))
    deaf = Process(world, "p", (), hear=frozenset({"headers"}))
    settle(p, deaf)
    epoch = world.trigger()
    p.catch_up()
    deaf.give(A)
    assert deaf.epoch == epoch
    assert deaf.turned[-1].heard == "assigned"


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


def test_a_process_that_is_given_nothing_stays_white(world: World) -> None:
    p = Process(world, "p", (), assign=False)
    p.give()
    assert (p.epoch, p.turned) == (0, [])


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


def test_r9_what_was_taken_away_is_not_ours_when_its_assigned_is_read(world: World) -> None:
    """It was announced and taken away before the ledger was read so far: a cut names none of it."""
    p = Process(world, "p", (A,), assign=False)
    given = AssignedInput(tp=A, agents=("agent",), position=0)
    p.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
    p.feed(InputsRevoked())
    epoch = world.trigger()
    p.catch_up()
    assert world.snapshot(epoch).reports[p.id][1].positions == ()


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


def test_r10_who_ran_an_input_before_the_ledger_said_whose_it_was_aborts(world: World) -> None:
    """R9: reads the ledger up to it before it runs them; R15: where the ledger is too slow it runs them all the same,
    and says so."""
    q = Process(world, "q", (B,))
    p = Process(world, "p", (A,), assign=False)
    other = world.trigger("other", apps=("q",))
    epochs = [world.trigger("first"), world.trigger("second")]
    heir = Process(world, "p", (), assign=False)
    given = InputsAssigned(
        generation=2, inputs=(AssignedInput(tp=A, agents=("agent",), position=0),), changelogs=()
    )
    heir.feed(given)
    heir.start(A, 0)
    heir.catch_up()
    for epoch in epochs:
        assert world.snapshot(epoch).failure == Failure(
            code="contaminated",
            reason=f"process {heir.id} ran events of a[0] before the ledger named its owner",
            culprit="a[0]",
        )
    assert world.snapshot(other).open, "the input is none of it"
    assert [position.offset for position in heir.machine.positions.note()] == [1], "what it ran it has run"
    settle(p, q, heir)


def test_r11_of_two_cuts_of_one_input_the_first_counts(world: World) -> None:
    """R11: what comes first stands: the report that landed first is the cut of an input."""
    p, q = Process(world, "p", (A,)), Process(world, "p", (), assign=False)
    settle(p, q)
    epoch = world.trigger()
    other = TopicPartition("a", 1)
    for process, offset, inputs in ((p, 3, (A,)), (q, 5, (A, other))):
        report = CutReport(
            process=process.id,
            n=100,
            epoch=epoch,
            previous=0,
            heard="ledger",
            assigned=p.machine.inputs.assigned,
            positions=tuple(
                Position(agent="agent", topic=tp[0], partition=tp[1], offset=offset) for tp in inputs
            ),
            changelogs=tuple(TopicPartition("p-t-changelog", tp.partition) for tp in inputs),
        )
        at = world.append(report)
        ends = tuple(
            ChangelogEnd(table="t", topic="p-t-changelog", partition=tp.partition, end=offset + tp.partition)
            for tp in inputs
        )
        world.append(Closed(process=process.id, n=101, epoch=epoch, report=at, changelogs=ends))
    captured = world.fold.captured(epoch)
    assert [(cut.partition, cut.position, cut.receiver) for cut in captured.inputs] == [
        (0, 3, p.id),
        (1, 5, q.id),
    ]
    assert [(cut.partition, cut.end, cut.process) for cut in captured.changelogs] == [
        (0, 3, p.id),
        (1, 6, q.id),
    ]


def test_r10_an_input_is_not_cut_for_a_snapshot_that_is_being_aborted(world: World) -> None:
    """The Abort is on its way: it stands behind the `Assigned` in the ledger."""
    q = Process(world, "q", (B,))
    Process(world, "p", (A,), assign=False)
    epoch, after = world.trigger("this"), world.trigger("after")
    heir = Process(world, "p", (), assign=False)
    heir.feed(
        InputsAssigned(generation=2, inputs=(AssignedInput(tp=A, agents=("x",), position=0),), changelogs=())
    )
    heir.feed(MarkerFailed(epoch=epoch, tp=B, reason="not allowed"))
    heir.catch_up()
    assert [report.epoch for report in records(heir, CutReport)] == [after]
    assert world.snapshot(epoch).status is Status.FAILED
    assert q.epoch == 0


def test_r10_an_input_is_cut_where_it_starts_for_every_open_snapshot(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    epochs = [world.trigger("first"), world.trigger("second")]
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.give(A)
    assert [report.epoch for report in records(heir, CutReport)] == epochs
    settle(p, q, heir)
    assert {world.snapshot(epoch).status for epoch in epochs} == {Status.CAPTURED}


def test_r10_a_supplement_that_nobody_wants_is_dropped_though_the_snapshot_before_is_open(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    first, second = world.trigger("first"), world.trigger("second")
    p.feed(InputsRevoked())
    heir = Process(world, "p", (), assign=False)
    heir.deaf_to_itself = True  # its supplements stay open
    heir.give(A)
    world.append(Abort(n=1, epoch=second, code="x", reason="y"))
    heir.catch_up()
    assert [item.report.epoch for item in heir.machine.open.supplements] == [first]
    assert q.epoch == 0


def test_r9_to_who_cuts_for_its_owner_an_input_is_as_red_as_the_owner() -> None:
    owner = Owner(9, 1, 1, before=3, red=5, earlier=())
    assert [ownership.before(owner, process) for process in (1, 2)] == [3, 5]


def test_r15_of_more_readers_than_are_remembered_anyone_may_have_read_an_input() -> None:
    """Design, section 11: bounded memories never accuse. A worker that crashes at one record, and is started again and
    again, leaves an effect of it each time."""
    owner = None
    for process in range(KEEP_EARLIER + 2):
        owner = ownership.next_owner(
            owner, offset=1_000 + process, process=process, generation=process, red=0, unknown=False
        )
        assert owner is not None
        assert (UNKNOWN in ownership.earlier(owner, process)) == (process > KEEP_EARLIER)
    assert owner is not None
    assert len(owner.earlier) == KEEP_EARLIER
    source = InputCut(
        app="a",
        topic="a",
        topic_id="",
        partition=0,
        position=0,
        noted=0,
        low=0,
        log_end=1,
        receiver=owner.process,
        earlier=tuple(reader.process for reader in ownership.earlier(owner, owner.process)),
    )
    assert read_before(source, 0), "the first one, whom nobody remembers"
