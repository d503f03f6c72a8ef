"""R7 to R15: when a snapshot is captured, when it failed; processes that lose their identity, or were absent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol import Event, InputsRevoked, MarkerMet, RecordMet, Status, TopicPartition
from snapkafka.protocol.actions import AppendHello, StartTimer
from snapkafka.protocol.events import Absence, LedgerRecreated, RanWithout, StopAsked, TimerExpired
from snapkafka.protocol.offsets import NOBODY, SOMEBODY
from snapkafka.protocol.records import (
    APP_RUNS_WITHOUT,
    INPUT_MOVED,
    INPUT_UNASSIGNED,
    UNKNOWN_PARTITION,
    Bye,
    Dead,
)
from tests.worlds.list_checks import v5

from .world import A, B, Process, World, fold_of, settle


def test_r12_a_new_life_keeps_only_what_is_under_way(world: World, p: Process, q: Process) -> None:
    """R12: a process that reads its own `Dead` takes a new identity before it sends again; what is under way from the
    old one is nobody's colour, so a snapshot is aborted by name as long as it lasts, and no longer."""
    changelog = TopicPartition("p-t-changelog", 0)
    event = p.start(A, 0)
    p.send(changelog, event)
    world.append(Dead(n=9, dead=p.id))
    void = p.id
    p.catch_up()
    (hello,) = [action for action in p.asked if isinstance(action, AppendHello)]
    assert (hello.void, hello.was) == (void, void)
    assert p.machine.inputs.assigned == -1, "what it was given, it was given as somebody else"
    p.join(was=hello.was)
    p.catch_up()
    assert p.id > void
    assert world.fold.owner(("p", A)) == p.id, "it says again what it was given"
    during = world.take(p, q, name="during")
    failure = world.failure(during)
    assert failure.code == "contaminated"
    assert failure.culprit == f"process {p.id}"
    p.end(event)
    after = world.take(p, q, name="after")
    assert world.snapshot(after).status is Status.CAPTURED
    ends = {cut.end for cut in world.fold.captured(after).changelogs if cut.app == "p"}
    assert ends == {1}, "what the old life wrote"


def test_r12_while_it_has_no_id_a_process_says_nothing(world: World) -> None:
    """R12: ... before it sends again; R11: and sends nothing before its Hello is read."""
    p = Process(world, "p", (A,), join=False)
    epoch = world.trigger()
    p.catch_up()
    quiet: list[Event] = [RecordMet(epoch=epoch), MarkerMet(epoch=epoch), TimerExpired(epoch=epoch)]
    quiet += [StopAsked(), Absence(), Absence(over=True), InputsRevoked(), LedgerRecreated()]
    assert [p.machine.handle(event) for event in quiet] == [[]] * len(quiet)


def test_what_an_event_of_an_earlier_life_sends_is_still_its_effect(world: World, p: Process) -> None:
    """In the colour of the process, but by its cause whoever has the input now can tell that it runs again (V5, R10).
    The simulator found effects of which nobody knew."""
    event = p.start(A, 0)
    before = p.machine.send_entered(event)
    p.feed(LedgerRecreated())
    p.join()
    again = p.machine.send_entered_again(before)
    after = p.machine.send_entered(event)
    at_once, _ = p.machine.send_at_once(event, B)
    assert (again.cause, after.cause, at_once.cause) == (event, event, event)
    assert again.sent is after.sent is at_once.sent is p.machine.colours.sent
    p.end(event)
    assert p.machine.send_entered(event).cause is None, "a task that outlives its event"
    assert p.machine.send_at_once(event, B)[0].cause is None
    assert p.machine.send_entered(None).cause is None


def test_r12_who_joins_watches_over_what_is_under_way(world: World) -> None:
    """Everybody who read the trigger is dead: without a clock of whoever comes next nobody would ever give it up, nor
    say that they are dead."""
    dead = Process(world, "p", (A,))
    decided = world.trigger("decided")
    dead.catch_up()
    settle(dead)
    assert world.snapshot(decided).status is Status.CAPTURED
    epoch = world.trigger(ttl_ms=77)
    heir = Process(world, "p", ())
    timers = [action for action in heir.asked if isinstance(action, StartTimer)]
    assert timers == [StartTimer(epoch=epoch, ttl_ms=77)]
    for _ in range(2):  # and the while after it
        heir.feed(TimerExpired(epoch=epoch))
    assert world.failure(epoch).culprit == f"process {dead.id} of app p to report its cut"
    heir.catch_up()
    assert world.fold.processes[dead.id].dead


def test_r12_what_a_life_wrote_counts_until_the_inputs_are_given_anew(world: World) -> None:
    """However many lives come after it. What is recovered with new inputs holds it: if the changelog is made anew by
    then, that is less."""
    p = Process(world, "p", (A,))
    for _ in range(3):
        p.send(TopicPartition("p-t-changelog", 0))
    ends = []
    for n, name in enumerate(("the next life", "the one after")):
        world.append(Dead(n=n, dead=p.id))
        p.catch_up()
        p.join()
        epoch = world.take(p, name=name)
        ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    p.feed(InputsRevoked())
    p.give(A, generation=2, recovered=1)
    epoch = world.take(p, name="made anew")
    ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    assert ends == [3, 3, 1]


@pytest.mark.parametrize("busy", [True, False])
def test_r11_who_has_work_under_way_when_its_ledger_is_recreated_says_so(world: World, busy: bool) -> None:
    """The new ledger does not know which inputs it has read."""
    p = Process(world, "p", (A,))
    void = p.id
    if busy:
        p.start(A, 0)
    assert p.feed(LedgerRecreated()) == [AppendHello(void=void, was=SOMEBODY if busy else NOBODY)]


def test_r11_an_epoch_of_a_ledger_that_is_gone_is_another_one(world: World) -> None:
    p = Process(world, "p")
    event = p.start(A, 0)
    epoch = world.take(p)
    p.feed(TimerExpired(epoch=epoch))
    p.end(event)
    p.world, p.read = World(), 0
    p.feed(LedgerRecreated())
    p.join()
    assert p.world.take(p) == epoch
    assert p.world.snapshot(epoch).status is Status.CAPTURED


# -- when a snapshot is captured, when it failed -------------------------------------------------------------------


def test_r7_white_in_an_unnamed_partition_fails_later_ones_only(world: World, p: Process, q: Process) -> None:
    event = q.start(B, 0)
    earlier = world.take(p, q, name="earlier")
    p.send(TopicPartition("b", 1))
    later = world.take(p, q, name="later")
    assert (world.failure(later).code, world.failure(later).culprit) == (UNKNOWN_PARTITION, "b[1]")
    q.end(event)
    settle(p, q)
    assert world.snapshot(earlier).status is Status.CAPTURED


def test_r9_an_input_whose_reader_has_left_fails_the_snapshot(world: World, p: Process, q: Process) -> None:
    """Also one that was added since, and is in no `Hello`: messages may lie in it."""
    added = TopicPartition("b", 1)
    other = Process(world, "q", inputs=(B,), assign=False)
    other.give(added, generation=2)
    q.give(B, generation=2)
    assert world.fold.unassigned() == []
    other.feed(StopAsked())
    assert world.fold.unassigned() == world.fold.unassigned(["q"]) == [("q", added)]
    assert world.fold.unassigned(["p"]) == []
    epoch = world.take(p, q)
    assert (world.failure(epoch).code, world.failure(epoch).culprit) == (INPUT_UNASSIGNED, "b[1]")


def test_r9_who_reports_an_input_that_another_one_has_by_now_fails_the_snapshot_at_once(world: World) -> None:
    zombie, heir = Process(world, "p", (A,)), Process(world, "p", (A,), assign=False)
    heir.give(A)
    epoch = world.trigger()
    zombie.catch_up()
    assert world.failure(epoch).code == INPUT_MOVED


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (lambda q: q.start(B, 7), "agent agent still runs offset 7 of b[0]"),
        (lambda q: (q.send(A), q.held.update(markers=[])), "its marker to a[0] is not acknowledged"),
        (lambda q: q.send(A, ack=False), "what it sent before its cut is not acknowledged"),
        (lambda q: setattr(q.machine, "hear", frozenset({"headers"})), "has not cut"),
    ],
    ids=["event", "marker", "send", "cut"],
)
def test_r12_what_a_report_waits_for(
    world: World, p: Process, q: Process, begin: Callable[[Process], object], what: str
) -> None:
    begin(q)
    epoch = world.take(p, q)
    q.feed(TimerExpired(epoch=epoch))
    assert world.failure(epoch).culprit == f"process {q.id} of app q: {what}"


# -- who runs without taking part (R10, R15) -------------------------------------------------------------------------


def test_r10_what_was_captured_while_somebody_stood_down_unread_cannot_be_proven(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    epoch = world.take(p, q)
    captured_at = world.snapshot(epoch).captured_at
    assert captured_at is not None
    for since, contaminated in ((captured_at + 1, False), (captured_at, True)):
        fold = fold_of(*world.ledger, Bye(process=p.id, n=1_000, goes_on=True, since=since))
        assert bool(fold.snapshots[epoch].contaminated) is contaminated


def test_r10_who_ran_before_its_hello_contaminates_what_was_captured_meanwhile(world: World) -> None:
    """Its `Hello` lands late; what was captured before it ran is as good as ever."""
    q = Process(world, "q", (B,))
    early = world.take(q, name="before it ran")
    since = len(world.ledger)
    epoch = world.take(q, name="meanwhile")
    assert world.snapshot(epoch).status is Status.CAPTURED
    under_way = world.trigger("under way")
    p = Process(world, "p", (A,))
    p.feed(RanWithout(since=since))
    assert "ran before its Hello" in world.snapshot(epoch).contaminated
    assert not world.snapshot(early).contaminated
    assert world.snapshot(under_way).failure.code == APP_RUNS_WITHOUT  # type: ignore[union-attr]


def test_r15_who_stands_down_before_its_hello_is_read_withdraws_when_it_is(world: World) -> None:
    """Before, nobody knew that it took no part, and every snapshot waited for it until its time was over."""
    p = Process(world, "p", (A,), join=False)
    p.append_hello()
    assert p.machine.stand_down("failed to join") == []
    p.catch_up()
    assert p.machine.process is None
    bye = world.ledger[-1]
    assert isinstance(bye, Bye)
    assert (bye.process, bye.goes_on, bye.reason) == (0, True, "failed to join")
    assert "because it failed to join" in world.failure(world.trigger()).reason


@pytest.mark.parametrize(("reset_to", "listed"), [(1, ["replayed", "replayed"]), (3, []), (9, [])])
def test_r10_offsets_that_were_reset_are_replays(world: World, reset_to: int, listed: list[str]) -> None:
    """App p ran offsets 0 to 2 of `a`, stopped, and somebody set its group to another offset: that is where it goes on.
    What it did of events past that is listed; what is skipped was never run, and nobody is accused for it."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    for offset in range(3):
        event = p.start(A, offset)
        p.send(B, event)
        p.end(event)
    p.feed(StopAsked())
    settle(p, q)
    epoch = world.take(q, stopped=world.stopped({A: reset_to}))
    assert world.snapshot(epoch).captured_at is not None
    view = CutView(world.fold.captured(epoch))
    source = next(source for source in view.captured.inputs if source.app == "p")
    assert (source.position, source.earlier) == (reset_to, (p.id,))
    log = [LogRecord(*B, offset, p.id, 0, offset, cause=(A, offset)) for offset in range(3)]
    assert [finding.kind for finding in v5(view, log)] == listed
