"""A process that hands over its state: it is white until that is done, and a snapshot without it fails by name."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    NOT_GIVEN,
    AskState,
    Event,
    Hold,
    LetGo,
    MarkerMet,
    RecordMet,
    StateGiven,
    StateRefused,
    TimerExpired,
    WorkerProtocol,
)

from .world import A, B, Process, World, settle


def system(*, assigned: bool = True) -> tuple[World, Process, Process]:
    """A worker that sends to `b`, and a process that reads it and hands over its state."""
    world = World()
    bank, till = Process(world, "bank", (A,)), Process(world, "till", (B,), join=False, assign=False)
    till.machine = WorkerProtocol(asks_state=True)
    till.join()
    if assigned:
        till.give(B)
    settle(bank, till)
    bank.send(B)
    return world, bank, till


def asked(process: Process) -> list[int]:
    return [action.epoch for action in process.asked if isinstance(action, AskState)]


def test_r2_what_is_red_waits_until_the_state_is_given_and_the_cut_is_that_instant() -> None:
    world, bank, till = system()
    epoch = world.take(bank, till)
    assert (bank.epoch, till.epoch, asked(till)) == (epoch, 0, [epoch])
    for met in (RecordMet(epoch=epoch, may_wait=True), MarkerMet(epoch=epoch)):
        assert till.feed(met) == [Hold(epoch=epoch)]
    till.end(till.start(B, 0))
    till.feed(StateGiven(epoch=epoch))
    assert till.epoch == epoch and LetGo() in till.asked
    settle(bank, till)
    (cut,) = [cut for cut in world.fold.captured(epoch).inputs if cut.app == "till"]
    assert cut.position == 1
    assert till.feed(RecordMet(epoch=epoch, may_wait=True)) == []


def test_a_later_snapshot_takes_no_cut_before_the_state_of_an_earlier_one_is_given() -> None:
    """Neither one that waits for a state of its own, nor one of other apps: its cut would be that of both."""
    world, bank, till = system()
    one, two, _ = (world.trigger(name, apps=apps) for name, apps in (("1", ()), ("2", ()), ("3", ("bank",))))
    settle(bank, till)
    assert (till.epoch, asked(till)) == (0, [one, two])
    till.feed(StateGiven(epoch=one))
    assert till.epoch == one
    till.feed(StateGiven(epoch=two))
    assert till.epoch == two
    settle(bank, till)
    assert [view.failure for view in world.fold.snapshots.values()] == [None] * 3


@pytest.mark.parametrize("end", [TimerExpired, StateRefused, RecordMet])
def test_r12_a_snapshot_fails_by_name_where_its_state_is_not_given(end: type[Event]) -> None:
    """Its time is over, the process leaves, or it takes in something red that cannot wait."""
    world, bank, till = system()
    epoch = world.take(bank, till)
    till.feed(StateRefused(reason="left") if end is StateRefused else end(epoch=epoch))  # type: ignore[call-arg]
    settle(bank, till)
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (NOT_GIVEN, f"process {till.id}")
    till.feed(StateGiven(epoch=epoch))  # too late
    later = world.take(bank, till, name="later")
    till.feed(StateGiven(epoch=later))
    settle(bank, till)
    assert world.snapshot(later).failure is None and till.epoch == later


def test_a_process_without_its_inputs_has_no_state_to_give() -> None:
    world, bank, till = system(assigned=False)
    epoch = world.take(bank, till)
    assert (world.failure(epoch).code, asked(till)) == (NOT_GIVEN, [])
