"""R16: an aligned snapshot has no message in flight, and one that is not aligned fails and says why."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    INPUT_MOVED,
    NOT_ALIGNED,
    Abort,
    AppSends,
    Hold,
    InputsRevoked,
    LetGo,
    RecordMet,
    Report,
    StopAsked,
    TimerExpired,
)
from snapkafka.protocol.alignment import Graph, known_graph

from .world import A, B, Process, World, records, settle


def system(world: World) -> tuple[Process, Process]:
    """One process that reads `a` and sends to `b`, and one that reads `b`; a record is on its way."""
    front, back = Process(world, "front", (A,)), Process(world, "back", (B,))
    settle(front, back)
    front.send(B)
    return front, back


FRONT = AppSends(app="front", topics=("b",))


def aligned(world: World, *processes: Process, sends: tuple[AppSends, ...] = (FRONT,)) -> int:
    """Trigger an aligned snapshot of apps that send there."""
    return world.take(*processes, name=f"aligned {world.number()}", align=True, sends=sends)


def test_r16_inputs_that_are_held_after_the_cut_go_on_once_they_have_moved() -> None:
    """One process of an app has cut, and holds back its inputs until the other one ends an event and reports."""
    world = World()
    one, two = Process(world, "front", (A,)), Process(world, "front")
    settle(one, two)
    two.start(A, 7)
    epoch = aligned(world, one, two)
    assert Hold(epoch=epoch, inputs=True) in one.asked and LetGo() not in one.asked
    one.feed(InputsRevoked())
    one.give(A, generation=2)
    assert LetGo() in one.asked and world.failure(epoch).code == INPUT_MOVED


@pytest.mark.parametrize("moved", [InputsRevoked(), InputsRevoked(undone_from=())])
def test_r16_an_input_that_moves_fails_the_snapshot_and_lets_go(moved: InputsRevoked) -> None:
    world = World()
    front, back = system(world)
    epoch = aligned(world, front, back)
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [Hold(epoch=epoch)]
    back.feed(moved)
    back.give(B, generation=2)
    settle(front, back)
    assert world.failure(epoch).code == INPUT_MOVED
    assert LetGo() in back.asked


def test_r16_a_red_record_of_an_earlier_snapshot_does_not_wait() -> None:
    """That one failed. Its records are white for the next one, so they are in flight until they are taken in."""
    world = World()
    front, back = system(world)
    failed = aligned(world, front, back)
    world.append(Abort(n=77, epoch=failed, code="by-hand", reason="enough"))
    epoch = aligned(world, front, back)
    assert (front.epoch, back.epoch) == (epoch, 0)
    back.feed(RecordMet(epoch=failed, may_wait=True))
    assert back.epoch == failed


def test_r16_who_cannot_wait_fails_the_snapshot_and_lets_go() -> None:
    world = World()
    front, back = system(world)
    epoch = aligned(world, front, back)
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [Hold(epoch=epoch)]
    back.feed(RecordMet(epoch=epoch))
    assert world.failure(epoch).code == NOT_ALIGNED
    settle(front, back)
    assert LetGo() in back.asked and not records(back, Report)
    back.feed(RecordMet(epoch=epoch, may_wait=True))
    assert back.epoch == epoch, "R2 holds as ever"


def test_r16_who_cannot_hold_back_its_inputs_fails_the_snapshot() -> None:
    world = World()
    loop = Process(world, "back", (B,), aligns=False)
    failure = world.failure(aligned(world, loop))
    assert (failure.code, failure.culprit) == (NOT_ALIGNED, f"process {loop.id}")


def test_r16_when_the_time_is_over_who_still_waits_says_for_what_and_nobody_is_dead() -> None:
    world = World()
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
def test_r16_a_snapshot_shows_a_cycle_as_long_as_its_senders_live(align: bool) -> None:
    world = World()
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
