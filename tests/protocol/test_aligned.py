"""R16 and R2: who waits before it cuts, for others or for a state that is handed over, and what fails by name."""

from __future__ import annotations

import pytest

from snapkafka.protocol.actions import AskState, Hold, LetGo
from snapkafka.protocol.alignment import Graph, known_graph
from snapkafka.protocol.events import Event, MarkerMet, RecordMet, StateGiven, StopAsked, TimerExpired
from snapkafka.protocol.offsets import AppSends
from snapkafka.protocol.records import NOT_ALIGNED, NOT_GIVEN, Abort, Report

from .world import A, B, Process, World, records, settle


def system(world: World, *, assign: bool = True, asks_state: bool = False) -> tuple[Process, Process]:
    """One process that reads `a` and sends to `b`, and one that reads `b`, and hands over its state perhaps; a record
    is on its way."""
    front = Process(world, "front", (A,))
    back = Process(world, "back", (B,), assign=assign, asks_state=asks_state)
    settle(front, back)
    front.send(B)
    return front, back


FRONT = AppSends(app="front", topics=("b",))


def aligned(world: World, *processes: Process, sends: tuple[AppSends, ...] = (FRONT,)) -> int:
    """Trigger an aligned snapshot of apps that send there."""
    return world.take(*processes, name=f"aligned {world.number()}", align=True, sends=sends)


def test_r16_a_red_record_of_an_earlier_snapshot_does_not_wait(world: World) -> None:
    """That one failed. Its records are white for the next one, so they are in flight until they are taken in."""
    front, back = system(world)
    failed = aligned(world, front, back)
    world.append(Abort(n=77, epoch=failed, code="by-hand", reason="enough"))
    epoch = aligned(world, front, back)
    assert (front.epoch, back.epoch) == (epoch, 0)
    back.feed(RecordMet(epoch=failed, may_wait=True))
    assert back.epoch == failed


def test_r16_who_cannot_wait_fails_the_snapshot_and_lets_go(world: World) -> None:
    front, back = system(world)
    epoch = aligned(world, front, back)
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [Hold(epoch=epoch)]
    back.feed(RecordMet(epoch=epoch))
    assert world.failure(epoch).code == NOT_ALIGNED
    settle(front, back)
    assert LetGo() in back.asked and not records(back, Report)
    back.feed(RecordMet(epoch=epoch, may_wait=True))
    assert back.epoch == epoch, "R2 holds as ever"


def test_r16_who_cannot_hold_back_its_inputs_fails_the_snapshot(world: World) -> None:
    loop = Process(world, "back", (B,), asks_state=True)
    failure = world.failure(aligned(world, loop))
    assert (failure.code, failure.culprit) == (NOT_ALIGNED, f"process {loop.id}")


def test_r16_when_the_time_is_over_who_still_waits_says_for_what_and_nobody_is_dead(world: World) -> None:
    front, back = system(world)
    epoch = aligned(world, front, back)
    back.feed(TimerExpired(epoch=epoch))
    failure = world.failure(epoch)
    assert failure.code == "ttl"
    assert failure.culprit == (
        f"process {back.id} of app back: waited for input b[0] to be read up to its barrier"
    )
    assert world.fold.is_alive(back.id)


@pytest.mark.parametrize("align", [True, False])
def test_r16_a_snapshot_shows_a_cycle_as_long_as_its_senders_live(world: World, align: bool) -> None:
    front, back = system(world)
    back.send(A)
    world.trigger(align=align)
    settle(front, back)
    reads = {"front": ["a"], "back": ["b"]}
    assert known_graph(world.fold, reads).cycle() == "back -> a -> front -> b -> back"
    assert known_graph(world.fold, {"front": ["a"]}).cycle() == ""
    back.feed(StopAsked())
    assert known_graph(world.fold, reads).cycle() == ""


def test_r16_an_app_that_reads_what_it_sends_is_a_cycle() -> None:
    assert Graph({"a": ["t"]}, {"a": ["t"]}).cycle() == "a -> t -> a"
    assert Graph({"a": ["t"], "b": ["u"]}, {"a": ["s"], "b": ["t"]}).cycle() == ""
    diamond = Graph({"a": ["t", "u"], "b": ["v"], "c": ["v"]}, {"b": ["t"], "c": ["u"], "d": ["v"]})
    assert diamond.cycle() == ""
    assert diamond.senders("d") == diamond.together("b") == {"b", "c"}


# -- processes that hand over their state: white until that is done ------------------------------------------------


def asked(process: Process) -> list[int]:
    return [action.epoch for action in process.asked if isinstance(action, AskState)]


def test_r2_what_is_red_waits_until_the_state_is_given_and_the_cut_is_that_instant(world: World) -> None:
    bank, till = system(world, asks_state=True)
    epoch = world.take(bank, till)
    assert (bank.epoch, till.epoch, asked(till)) == (epoch, 0, [epoch])
    for met in (RecordMet(epoch=epoch, may_wait=True), MarkerMet(epoch=epoch)):
        assert till.feed(met) == [Hold(epoch=epoch)]
    till.end(till.start(B, 0))
    till.feed(StateGiven(epoch=epoch))
    assert till.epoch == epoch and LetGo() in till.asked
    settle(bank, till)
    (cut,) = [cut for cut in world.fold.captured(epoch).inputs if cut.app == "back"]
    assert cut.position == 1
    assert till.feed(RecordMet(epoch=epoch, may_wait=True)) == []


def test_a_later_snapshot_takes_no_cut_before_the_state_of_an_earlier_one_is_given(world: World) -> None:
    """Neither one that waits for a state of its own, nor one of other apps: its cut would be that of both."""
    bank, till = system(world, asks_state=True)
    one, two, _ = (world.trigger(name, apps=apps) for name, apps in (("1", ()), ("2", ()), ("3", ("front",))))
    settle(bank, till)
    assert (till.epoch, asked(till)) == (0, [one, two])
    till.feed(StateGiven(epoch=one))
    assert till.epoch == one
    till.feed(StateGiven(epoch=two))
    assert till.epoch == two
    settle(bank, till)
    assert [view.failure for view in world.fold.snapshots.values()] == [None] * 3


@pytest.mark.parametrize("end", [TimerExpired, RecordMet])
def test_r12_a_snapshot_fails_by_name_where_its_state_is_not_given(world: World, end: type[Event]) -> None:
    """Its time is over, or it takes in something red that cannot wait."""
    bank, till = system(world, asks_state=True)
    epoch = world.take(bank, till)
    till.feed(end(epoch=epoch))  # type: ignore[call-arg]
    settle(bank, till)
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (NOT_GIVEN, f"process {till.id}")
    till.feed(StateGiven(epoch=epoch))  # too late
    later = world.take(bank, till, name="later")
    till.feed(StateGiven(epoch=later))
    settle(bank, till)
    assert world.snapshot(later).failure is None and till.epoch == later


def test_a_process_without_its_inputs_has_no_state_to_give(world: World) -> None:
    bank, till = system(world, assign=False, asks_state=True)
    epoch = world.take(bank, till)
    assert (world.failure(epoch).code, asked(till)) == (NOT_GIVEN, [])
