"""R16: an aligned snapshot has no message in flight, and one that is not aligned says why."""

from __future__ import annotations

from snapkafka.protocol import (
    Abort,
    Cause,
    CutReport,
    HoldInputs,
    HoldRecord,
    InputsRevoked,
    LetGo,
    RecordMet,
    StartTimer,
    StopAsked,
    TimerExpired,
    TopicPartition,
)
from snapkafka.protocol.alignment import Graph, known_graph

from .world import A, B, Process, World, cuts, expire, records, settle

C = TopicPartition("c", 0)


def system(world: World) -> tuple[Process, Process]:
    """One process that reads `a` and sends to `b`, and one that reads `b`; a record is on its way."""
    front, back = Process(world, "front", (A,)), Process(world, "back", (B,))
    settle(front, back)
    front.send(B)
    return front, back


def read_one(process: Process, offset: int) -> None:
    process.end(process.start(B, offset))


def alignment(world: World, epoch: int) -> tuple[bool, str]:
    found = world.fold.captured(epoch).alignment
    assert found is not None
    return found.aligned, found.why


def test_r16_an_input_is_held_until_all_who_send_to_the_same_topic_have_closed() -> None:
    world = World()
    (front, back), other = system(world), Process(world, "other", (A,))
    running = other.start(A, 0)
    other.send(B, running)
    epoch = world.trigger(align=True)
    settle(front, back, other)
    assert front.epoch == other.epoch == epoch
    assert HoldInputs(epoch=epoch) in front.asked and LetGo() not in front.asked
    other.send(B, running)
    other.end(running)
    settle(front, back, other)
    assert LetGo() in front.asked and LetGo() in other.asked
    assert back.epoch == 0
    assert world.log(B)[2].marker, "that of front stands before a white record of other"
    read_one(back, 3)
    settle(front, back, other)
    assert alignment(world, epoch) == (True, "")


def holding(world: World) -> tuple[Process, Process, Cause, int]:
    """Two processes of an app. One has cut, and holds back its inputs until the other one ends an event and closes."""
    one, two = Process(world, "front", (A,)), Process(world, "front")
    settle(one, two)
    running = two.start(A, 7)
    epoch = world.trigger(align=True)
    settle(one, two)
    assert HoldInputs(epoch=epoch) in one.asked and LetGo() not in one.asked
    return one, two, running, epoch


def test_r16_inputs_that_are_held_after_the_cut_go_on_once_they_are_revoked() -> None:
    one, _, _, _ = holding(World())
    assert one.feed(InputsRevoked()) == [LetGo()]


def test_r16_a_timeout_after_the_cut_lets_the_inputs_go_on_and_the_snapshot_stays_aligned() -> None:
    world = World()
    one, two, running, epoch = holding(world)
    assert one.feed(TimerExpired(epoch=epoch, align=True)) == [LetGo()]
    two.end(running)
    settle(one, two)
    assert one.asked.count(LetGo()) == 1
    assert alignment(world, epoch) == (True, "")


def test_r16_who_begins_to_send_after_it_stated_where_it_sends_is_named() -> None:
    world = World()
    front, back = Process(world, "front", (A,)), Process(world, "back", (B,))
    settle(front, back)
    running = front.start(A, 0)
    epoch = world.trigger(align=True)
    settle(front, back)
    assert back.epoch == epoch, "nobody is known to send to it"
    assert front.send(B, running).epoch == 0
    front.end(running)
    settle(front, back)
    why = f"process {front.id} of app front began to send to b meanwhile, for the first time"
    assert alignment(world, epoch) == (False, why)


def test_r16_a_red_record_of_an_earlier_snapshot_does_not_wait() -> None:
    """That one failed. Its records are white for the next one, so they are in flight until they are taken in."""
    world = World()
    front, back = system(world)
    failed = world.trigger("failed", align=True)
    settle(front, back)
    world.append(Abort(n=77, epoch=failed, code="by-hand", reason="enough"))
    settle(front, back)
    assert (front.send(B).epoch, world.log(B)[1].marker) == (failed, True)
    epoch = world.trigger(align=True)
    settle(front, back)
    read_one(back, 0)
    assert (front.epoch, back.epoch) == (epoch, 0)
    back.feed(RecordMet(epoch=failed, may_wait=True))
    assert back.epoch == failed, "it turns red for the failed one only"
    read_one(back, 2)
    assert back.epoch == epoch
    settle(front, back)
    assert alignment(world, epoch) == (True, "")


def test_r16_a_timeout_makes_it_an_ordinary_snapshot() -> None:
    world = World()
    front, back = system(world)
    epoch = world.trigger(align=True, align_timeout_ms=50)
    settle(front, back)
    assert StartTimer(epoch=epoch, ttl_ms=50, align=True) in back.asked
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [HoldRecord(epoch=epoch)]
    back.feed(TimerExpired(epoch=epoch, align=True))
    assert back.epoch == epoch and LetGo() in back.asked
    settle(front, back)
    aligned, why = alignment(world, epoch)
    assert not aligned
    waited = "it waited for input b[0] to be read up to its barrier"
    assert why == f"process {back.id} was not aligned within 50 ms: {waited}"
    assert back.feed(TimerExpired(epoch=epoch, align=True)) == [], "a late timer is harmless"


def test_r16_no_cut_has_positions_that_an_aborted_transaction_has_undone() -> None:
    """What it had started runs again: a snapshot with those positions would have lost its effects."""
    world = World()
    front, back = system(world)
    epoch = world.trigger(align=True)
    read_one(back, 0)
    settle(back)
    back.feed(InputsRevoked(undone_from=()))
    settle(front, back)
    assert not records(back, CutReport)
    assert "aborted a transaction while it waited" in world.failure(epoch).reason


def test_r16_a_rebalance_ends_the_alignment() -> None:
    world = World()
    front, back = system(world)
    epoch = world.trigger(align=True)
    settle(front, back)
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [HoldRecord(epoch=epoch)]
    back.feed(InputsRevoked())
    assert back.epoch == epoch and LetGo() in back.asked
    (report,) = cuts(back)
    assert [(p.topic, p.offset) for p in report.positions] == [("b", 0)], "the last that is known of them"
    assert report.unaligned == f"process {back.id} did not wait: a rebalance moved its inputs"


def test_r16_what_is_held_goes_on_when_the_snapshot_fails() -> None:
    world = World()
    front, back = system(world)
    epoch = world.trigger(align=True)
    settle(front, back)
    assert back.feed(RecordMet(epoch=epoch, may_wait=True)) == [HoldRecord(epoch=epoch)]
    world.append(Abort(n=77, epoch=epoch, code="by-hand", reason="enough"))
    settle(back)
    assert LetGo() in back.asked
    assert back.feed(RecordMet(epoch=epoch, may_wait=True))[0].epoch == epoch  # type: ignore[union-attr]
    assert back.epoch == epoch, "R2 holds as ever"


def test_r16_who_cannot_hold_back_cuts_at_the_trigger_and_says_so() -> None:
    """So does everybody else, at once: nobody waits in vain."""
    world = World()
    front, back = system(world)
    third = Process(world, "third", (C,))
    back.send(C)
    back.machine._aligns = False
    epoch = world.trigger(align=True)
    settle(front, back, third)
    assert back.epoch == third.epoch == epoch
    assert alignment(world, epoch) == (False, f"process {back.id} cannot hold back its inputs")


def test_r16_the_time_to_live_names_who_is_waited_for_and_buries_nobody() -> None:
    world = World()
    front, back = system(world)
    epoch = world.trigger(align=True)
    settle(front, back)
    expire(front, epoch)
    failure = world.failure(epoch)
    assert failure.code == "ttl"
    assert failure.culprit == f"process {back.id} of app back to read what is in flight to it"
    assert world.fold.is_alive(back.id)


def test_r16_a_cycle_fails_by_name_and_is_refused_the_next_time() -> None:
    world = World()
    front, back = system(world)
    back.send(A)
    epoch = world.trigger(align=True)
    settle(front, back)
    failure = world.failure(epoch)
    assert (failure.code, failure.culprit) == ("alignment-cycle", "back -> a -> front -> b -> back")
    reads = {"front": ["a"], "back": ["b"]}
    assert known_graph(world.fold, reads).cycle() == failure.culprit
    assert known_graph(world.fold, {"front": ["a"]}).cycle() == ""


def test_r16_an_ordinary_snapshot_shows_the_cycle_as_well_as_long_as_its_senders_live() -> None:
    world = World()
    front, back = system(world)
    back.send(A)
    world.trigger()
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
