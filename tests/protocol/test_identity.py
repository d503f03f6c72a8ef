"""R12 and R15: processes that lose their identity, or were absent."""

from __future__ import annotations

import pytest

from snapkafka.checks import read_before
from snapkafka.protocol import (
    NOBODY,
    AppendHello,
    CameBack,
    CutTimed,
    Dead,
    Event,
    Failure,
    Hello,
    InputsRevoked,
    Joined,
    LedgerRecreated,
    LedgerState,
    MarkerMet,
    ReadLedgerTo,
    RecordMet,
    SendOutcome,
    StartTimer,
    Status,
    StopAsked,
    TimerExpired,
    TopicPartition,
    WentAbsent,
)
from snapkafka.protocol.offsets import SOMEBODY

from .world import A, B, Process, World, expire, settle


def test_r15_an_absent_process_aborts_what_it_may_have_mixed(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R15: epochs it may have mixed are contaminated, and its next ledger record for them is `Abort`."""
    p, q = pair
    before = world.trigger("before")
    p.hold_timing = True
    p.catch_up()
    p.feed(WentAbsent())
    assert world.snapshot(before).failure is not None, "at once, not only when it is back"
    during = world.trigger("during")
    settle(p, q)
    p.feed(CameBack())
    settle(p, q)
    assert p.epoch == during
    for epoch in (before, during):
        assert world.snapshot(epoch).failure == Failure(
            code="contaminated",
            reason=f"process {p.id} was absent meanwhile",
            culprit=f"process {p.id}",
        )
    p.hold_timing = False
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_r15_what_is_taken_in_red_during_an_absence_spoils_one_snapshot_and_none_after_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It has not come back before it has read of the trigger. The event that took it in runs in a colour that its
    process comes to only later, and is counted there once."""
    p, q = pair
    event = p.start(A, 0)
    p.feed(WentAbsent())
    epoch = world.trigger("nobody has read of it")
    assert p.feed(RecordMet(epoch=epoch)) == [ReadLedgerTo(offset=epoch - 1)]
    p.do(p.machine.reply_taken(event, epoch))
    assert p.machine.colours.running == {event: epoch}
    assert p.epoch < epoch
    settle(p, q)
    p.feed(CameBack())
    assert world.failure(epoch).code == "contaminated"
    p.end(event)
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_a_recreated_ledger_starts_a_new_life(world: World, pair: tuple[Process, Process]) -> None:
    p, _ = pair
    world.trigger()
    p.catch_up()
    p.feed(LedgerRecreated())
    assert p.machine.process is None
    assert p.epoch == 0
    assert p.machine.ledger.end == 0
    assert p.feed(LedgerRecreated()) == [], "it has not said anything in this one yet"


def test_who_had_no_id_yet_in_a_ledger_that_is_gone_has_none_to_name(world: World) -> None:
    p = Process(world, "p", join=False)
    p.feed(Joined(hello=Hello(n=1, app="p")))
    assert p.feed(LedgerRecreated()) == [AppendHello(void=NOBODY, was=NOBODY)]


def test_r12_a_new_life_keeps_nothing_of_the_old_but_what_it_has_under_way(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R12: a process that reads its own `Dead` takes a new identity before it sends again; what is under way from the
    old one is nobody's colour, so a snapshot is aborted by name as long as it lasts, and no longer."""
    p, q = pair
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
    during = world.trigger("during")
    settle(p, q)
    failure = world.failure(during)
    assert failure.code == "contaminated"
    assert failure.reason == f"process {p.id} still has work under way from before it was declared dead"
    assert failure.culprit == f"process {p.id}"
    p.end(event)
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED
    assert {c.end for c in world.fold.captured(after).changelogs if c.app == "p"} == {1}, (
        "what the old life wrote"
    )


def test_r12_a_later_life_of_an_earlier_reader_is_one_as_well(world: World) -> None:
    """It goes on with its event under another id; what that sends runs again where the next reader stands."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    event = p.start(A, 0)
    incarnations = [p.id]
    for n in range(3):
        world.append(Dead(n=9 + n, dead=p.id))
        p.catch_up()
        p.join(was=incarnations[-1])
        incarnations.append(p.id)
        p.give(
            generation=2 + n
        )  # it has lost the input by then: the first of these lives had announced it still
    p.end(event)
    heir = Process(world, "p", ())
    heir.give(A, generation=5)
    settle(p, q, heir)
    epoch = world.trigger()
    settle(p, q, heir)
    cuts = {cut.app: cut for cut in world.fold.captured(epoch).inputs}
    assert (cuts["p"].receiver, cuts["p"].earlier) == (heir.id, tuple(incarnations))
    assert cuts["q"].earlier == (), "not everybody who was nobody before"


@pytest.mark.parametrize(("incarnations", "end"), [(("writes", "fails"), 1), (("fails",), 0)])
def test_r12_an_old_life_whose_writes_failed_wrote_nothing(
    world: World, incarnations: tuple[str, ...], end: int
) -> None:
    """Nor does it take away what a life before it wrote."""
    p = Process(world, "p", (A,))
    changelog = TopicPartition("p-t-changelog", 0)
    for n, life in enumerate(incarnations):
        p.send(changelog, ack=False)
        if life == "writes":
            p.ack()
        else:
            effect, tp, seq, _ = p.unacked.popleft()
            p.do(p.machine.settled(effect, tp, seq, SendOutcome.REFUSED))
        world.append(Dead(n=n, dead=p.id))
        p.catch_up()
        p.join()
    epoch = world.trigger()
    settle(p)
    assert [cut.end for cut in world.fold.captured(epoch).changelogs] == [end]


def test_r12_who_reads_its_own_death_names_its_old_identity(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It may have sent since it was declared dead."""
    p, _ = pair
    void = p.id
    world.append(Dead(n=9, dead=void))
    p.catch_up()
    assert [action for action in p.asked if isinstance(action, AppendHello)] == [
        AppendHello(void=void, was=void)
    ]


def test_r12_while_it_has_no_id_a_process_says_nothing(world: World) -> None:
    """R12: ... before it sends again; R11: and sends nothing before its Hello is read."""
    p = Process(world, "p", (A,), join=False)
    epoch = world.trigger()
    p.catch_up()
    quiet: list[Event] = [
        RecordMet(epoch=epoch),
        MarkerMet(epoch=epoch),
        StopAsked(),
        TimerExpired(epoch=epoch),
        WentAbsent(),
        CameBack(),
        InputsRevoked(),
        LedgerRecreated(),
        CutTimed(epoch=epoch, us=1),
    ]
    assert [p.machine.handle(event) for event in quiet] == [[]] * len(quiet)


def test_r12_snapshots_captured_while_somebody_was_wrongly_dead_cannot_be_proven(
    world: World, pair: tuple[Process, Process]
) -> None:
    """`Hello.was`: what that id sent is only a part of what it did, so no snapshot that counts it among those that left
    can be proven; an open one fails."""
    p, q = pair
    p.start(A, 0)
    before = world.trigger("before")
    q.catch_up()
    world.append(Dead(n=9, dead=p.id))
    heir = Process(world, "p", (A,))
    captured = world.trigger("captured")
    settle(q, heir)
    q.hold = True
    still_open = world.trigger("open")
    settle(q, heir)
    void = p.id
    p.catch_up()
    p.join(was=void)
    what = f"process {void} was declared dead but continued under that identity"
    assert world.snapshot(captured).contaminated == world.fold.captured(captured).contaminated == what
    assert world.snapshot(captured).status is Status.CAPTURED
    failure = world.snapshot(still_open).failure
    assert failure == Failure(code="contaminated", reason=what, culprit=f"process {void}")
    assert world.snapshot(still_open).failed_at == len(world.ledger) - 2, (
        "by the Hello, not by the Assigned after it"
    )
    assert world.snapshot(before).contaminated == "", "there it was required, and failed it"


@pytest.mark.parametrize(("busy", "was"), [(False, NOBODY), (True, SOMEBODY)])
def test_a_recreated_ledger_asks_for_no_past(
    world: World, pair: tuple[Process, Process], *, busy: bool, was: int
) -> None:
    """Every id and epoch of the old one is void, so none of them can be named: only that there was one, where it has
    work under way."""
    p, _ = pair
    if busy:
        p.start(A, 0)
    void = p.id
    p.feed(LedgerRecreated())
    assert [a for a in p.asked if isinstance(a, AppendHello)] == [AppendHello(void=void, was=was)]


def test_what_an_event_of_an_earlier_life_sends_is_still_its_effect(
    world: World, pair: tuple[Process, Process]
) -> None:
    """In the colour of the process, but by its cause whoever has the input now can tell that it runs again (V5, R10).
    The simulator found effects of which nobody knew."""
    p, _ = pair
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


def test_r12_events_of_the_old_life_end_in_the_old_life(world: World, pair: tuple[Process, Process]) -> None:
    p, _ = pair
    event = p.start(A, 0)
    effect = p.machine.send_entered(event)
    p.feed(LedgerRecreated())
    p.join()
    p.end(event)
    p.do(p.machine.send_withdrawn(effect))
    with pytest.raises(AssertionError, match="entered again"):
        p.machine.send_stamped(effect, B)


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
    expire(heir, epoch)
    assert world.failure(epoch).culprit == f"process {dead.id} of app p to report its cut"
    heir.catch_up()
    assert world.fold.processes[dead.id].dead


def test_r15_a_process_that_was_absent_from_the_start_aborts_when_it_has_joined(world: World) -> None:
    q = Process(world, "q", (B,))
    epoch = world.trigger()
    p = Process(world, "p", (A,), join=False)
    p.feed(WentAbsent())
    p.join()
    assert world.failure(epoch).code == "contaminated"
    p.feed(CameBack())
    settle(p, q)
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def another_life(p: Process, n: int) -> None:
    """It is taken for dead, reads that and joins again."""
    p.world.append(Dead(n=n, dead=p.id))
    p.catch_up()
    p.join()
    p.catch_up()


def test_r12_what_a_life_wrote_counts_until_the_inputs_are_given_anew(world: World) -> None:
    """However many lives come after it. What is recovered with new inputs holds it: if the changelog is made anew by
    then, that is less."""
    p = Process(world, "p", (A,))
    for _ in range(3):
        p.send(TopicPartition("p-t-changelog", 0))
    ends = []
    for n, name in enumerate(("the next life", "the one after")):
        another_life(p, n)
        epoch = world.trigger(name)
        settle(p)
        ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    p.feed(InputsRevoked())
    p.give(A, generation=2, recovered=1)
    epoch = world.trigger("made anew")
    settle(p)
    ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    assert ends == [3, 3, 1]


def next_life(p: Process) -> AppendHello:
    """Join as the machine asked it to."""
    hello = [action for action in p.asked if isinstance(action, AppendHello)][-1]
    p.join(was=hello.was)
    p.catch_up()
    return hello


def recreate_ledger(world: World, *processes: Process) -> None:
    world.ledger, world.fold = [], LedgerState()
    for process in processes:
        process.read = 0
        process.feed(LedgerRecreated())


@pytest.mark.parametrize("ledgers", [1, 2])
def test_r11_who_may_have_read_an_input_in_a_ledger_that_is_gone_is_an_earlier_reader(
    world: World, ledgers: int
) -> None:
    """Its event goes on, under an id of the new ledger, which does not know that it had the input: what that sends is
    run again where the next reader stands. The simulator found verdicts that blamed it."""
    p, heir, q = Process(world, "p", (A,)), Process(world, "p", ()), Process(world, "q", (B,))
    event = p.start(A, 0)
    p.feed(InputsRevoked())
    p.give(generation=2)
    heir.give(A, generation=2)
    for _ in range(ledgers):
        recreate_ledger(world, p, heir, q)
        for process in (p, heir, q):
            next_life(process)
    sent = p.machine.send_entered(event)
    assert sent.cause == event
    p.end(event)
    p.do(p.machine.send_withdrawn(sent))
    epoch = world.trigger()
    settle(p, heir, q)
    cuts = {cut.app: cut for cut in world.fold.captured(epoch).inputs}
    assert cuts["p"].receiver == heir.id
    assert read_before(cuts["p"], p.id)
    assert not read_before(cuts["p"], heir.id), "it had nothing under way"
    assert cuts["q"].earlier == (), "its app does not read that"
