"""R10: when an app counts as one that does not run, and who spoils a snapshot by running without taking part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol import (
    APP_RUNS_WITHOUT,
    AppendToLedger,
    AskStopped,
    Bye,
    ChangelogEnd,
    Hello,
    InputTopic,
    Joined,
    LedgerRead,
    LedgerState,
    Position,
    RanWithout,
    Status,
    StopAsked,
    StoppedSeen,
    TopicPartition,
    Trigger,
    WorkerProtocol,
    take_checkpoint,
)
from tests.worlds.list_checks import v5

from .world import A, B, Process, Stored, World, settle


def stopped_and_asked(world: World) -> tuple[Process, int, StoppedSeen]:
    """App p does not run; q is to look at it. What it sees is given back."""
    p = Process(world, "p", (A,))
    p.feed(StopAsked())
    q = Process(world, "q", (B,))
    epoch = world.trigger()
    settle(q)
    (asked,) = [action for action in q.asked if isinstance(action, AskStopped)]
    position = Position(agent="*", topic="a", partition=0, offset=3)
    end = ChangelogEnd(table="t", topic="p-t-changelog", partition=0, end=3)
    seen = StoppedSeen(
        epoch=epoch, app="p", asked_at=asked.asked_at, positions=(position,), changelogs=(end,), ends=()
    )
    return q, epoch, seen


@pytest.mark.parametrize("looks", [1, 2])
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"members": 1}, "its consumer group has 1 members"),
        ({"unseen": "not allowed"}, "is not known to be stopped: not allowed"),
    ],
)
def test_r10_an_app_is_stopped_only_if_it_is_seen_to_be(
    world: World, looks: int, changed: dict[str, Any], why: str
) -> None:
    """R10: an app is stopped only if its group is seen to be empty, again when its log ends are there."""
    q, epoch, seen = stopped_and_asked(world)
    if looks == 2:
        q.feed(seen)
        settle(q)
    q.feed(replace(seen, **changed))
    settle(q)
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert (failure.code, failure.culprit) == (APP_RUNS_WITHOUT, "app p")
    assert why in failure.reason


@pytest.mark.parametrize(
    "changed",
    [
        {"positions": (Position(agent="*", topic="a", partition=0, offset=4),)},
        {"changelogs": (ChangelogEnd(table="t", topic="p-t-changelog", partition=0, end=4),)},
    ],
)
def test_r10_an_app_that_ran_between_the_two_looks_was_not_stopped(
    world: World, changed: dict[str, Any]
) -> None:
    q, epoch, seen = stopped_and_asked(world)
    q.feed(seen)
    settle(q)
    q.feed(replace(seen, **changed))
    settle(q)
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == APP_RUNS_WITHOUT


def test_r10_members_that_have_joined_since_are_no_reason(world: World) -> None:
    """The app starts again, with snapkafka, between the two looks: its worker is red, and known."""
    q, epoch, seen = stopped_and_asked(world)
    q.feed(seen)
    settle(q)
    heir = Process(world, "p", (A,))
    settle(q, heir)
    q.feed(replace(seen, members=1, positions=(Position(agent="*", topic="a", partition=0, offset=9),)))
    settle(q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    (cut,) = (cut for cut in world.fold.captured(epoch).inputs if cut.app == "p")
    assert (cut.position, cut.receiver) == (3, q.id)


def test_r10_who_stands_down_fails_what_is_open_and_whatever_comes_until_somebody_else_has_its_inputs(
    world: World,
) -> None:
    """R15: a worker that goes on without taking part says so, and its app never counts as stopped."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    before = world.trigger("before")
    settle(p, q)
    assert world.snapshot(before).status is Status.CAPTURED
    under_way, process, since = world.trigger("under way"), p.id, p.machine.ledger.end
    (bye,) = (action.record for action in p.machine.stand_down() if isinstance(action, AppendToLedger))
    assert isinstance(bye, Bye)
    assert (bye.process, bye.goes_on, bye.since) == (process, True, since)
    world.append(bye)
    settle(q)
    assert world.snapshot(under_way).failure is not None
    assert world.snapshot(under_way).failure.code == APP_RUNS_WITHOUT  # type: ignore[union-attr]
    assert not world.snapshot(before).contaminated
    later = world.trigger("later")
    settle(q)
    assert world.snapshot(later).failure.code == APP_RUNS_WITHOUT  # type: ignore[union-attr]
    assert not world.fold.is_epoch(later)
    heir = Process(world, "p", (A,), assign=False)
    joining = world.trigger("its inputs are still those of who stood down")
    settle(q, heir)
    assert world.snapshot(joining).failure.code == APP_RUNS_WITHOUT  # type: ignore[union-attr]
    heir.give(A, generation=2)
    at_last = world.trigger("at last")
    settle(q, heir)
    assert world.snapshot(at_last).status is Status.CAPTURED


def test_r10_who_stood_down_and_stops_says_that_too(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    for action in p.machine.stand_down():
        assert isinstance(action, AppendToLedger)
        world.append(action.record)
    assert world.fold.goes_on_without(world.fold.processes[p.machine.stood_down or 0])
    p.feed(StopAsked())
    settle(q)
    assert not world.fold.goes_on_without(world.fold.processes[p.machine.stood_down or 0])


def test_r10_what_was_captured_while_somebody_stood_down_unread_cannot_be_proven(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    epoch = world.trigger()
    settle(p, q)
    captured_at = world.snapshot(epoch).captured_at
    assert captured_at is not None
    for since, contaminated in ((captured_at + 1, False), (captured_at, True)):
        world.append(Bye(process=p.id, n=1_000 + since, goes_on=True, since=since))
        assert bool(world.snapshot(epoch).contaminated) is contaminated


def test_r10_who_ran_before_its_hello_contaminates_what_was_captured_meanwhile(world: World) -> None:
    """Its `Hello` lands late; what was captured before it ran is as good as ever."""
    q = Process(world, "q", (B,))
    early = world.trigger("before it ran")
    settle(q)
    since = len(world.ledger)
    epoch = world.trigger("meanwhile")
    settle(q)
    assert world.snapshot(epoch).status is Status.CAPTURED
    under_way = world.trigger("under way")
    p = Process(world, "p", (A,))
    p.feed(RanWithout(since=since))
    assert "ran before its Hello" in world.snapshot(epoch).contaminated
    assert not world.snapshot(early).contaminated
    assert world.snapshot(under_way).failure.code == APP_RUNS_WITHOUT  # type: ignore[union-attr]


def test_r10_what_was_written_to_tables_before_the_hello_is_in_the_state(world: World) -> None:
    """R10: nobody has counted it, and it bears no header: the end of a table is asked for at each cut from then on."""
    p = Process(world, "p", (A,))
    changelog = TopicPartition("p-t-changelog", 0)
    world.logs[changelog] = [Stored(-1, 0, -1)] * 4
    p.feed(RanWithout(since=0))
    for _ in range(2):
        epoch = world.trigger(f"s{epoch_of(world)}")
        settle(p)
        (end,) = world.fold.captured(epoch).changelogs
        assert end.end == 4
    event = p.start(A, 0)
    p.send(changelog, event)
    p.end(event)
    epoch = world.trigger("later")
    settle(p)
    assert [end.end for end in world.fold.captured(epoch).changelogs] == [5]


def epoch_of(world: World) -> int:
    return len(world.ledger)


def test_a_checkpoint_keeps_who_goes_on_without(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    for action in p.machine.stand_down():
        assert isinstance(action, AppendToLedger)
        world.append(action.record)
    chunks = take_checkpoint(enumerate(world.ledger), first_n=10**9)
    start = len(world.ledger)
    for chunk in chunks:
        world.append(chunk)
    late = LedgerState(start=start)
    for offset in range(start, len(world.ledger)):
        late.apply(offset, world.ledger[offset])
    assert late.goes_on_without(late.processes[p.machine.stood_down or 0])


def test_r10_who_joined_before_the_first_look_cuts_its_inputs_itself(world: World) -> None:
    q, epoch, seen = stopped_and_asked(world)
    heir = Process(world, "p", (A,), assign=False)
    q.catch_up()
    q.feed(replace(seen, members=1))
    assert not [part for part in world.snapshot(epoch).parts() if part.report.app == "p"]
    heir.give(A, generation=2)
    settle(q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    (cut,) = (cut for cut in world.fold.captured(epoch).inputs if cut.app == "p")
    assert cut.receiver == heir.id


def test_r15_who_has_no_identity_neither_stands_down_nor_ran_without() -> None:
    machine = WorkerProtocol()
    assert machine.stand_down() == []
    assert machine.handle(RanWithout(since=0)) == []


def test_r15_who_stands_down_before_its_hello_is_read_withdraws_when_it_is() -> None:
    """Before, nobody knew that it took no part, and every snapshot waited for it until its time was over."""
    machine = WorkerProtocol()
    hello = Hello(n=7, app="p", inputs=(InputTopic(topic="a", partitions=1),))
    machine.handle(Joined(hello=hello))
    assert machine.stand_down("failed to join") == []
    (action,) = machine.handle(LedgerRead(offset=0, record=hello))
    assert isinstance(action, AppendToLedger)
    bye = action.record
    assert isinstance(bye, Bye)
    assert (bye.process, bye.goes_on, bye.reason) == (0, True, "failed to join")
    assert machine.process is None
    fold = LedgerState()
    fold.apply(0, hello)
    fold.apply(1, bye)
    fold.apply(2, Trigger(n=1, id="s"))
    failure = fold.snapshots[3].failure
    assert failure is not None
    assert "because it failed to join" in failure.reason


def test_r15_who_left_in_order_does_not_go_on(world: World) -> None:
    """A copy of what it said before."""
    p = Process(world, "p", (A,))
    p.feed(StopAsked())
    world.append(Bye(process=p.id, n=9_999, goes_on=True))
    assert not world.fold.goes_on_without(world.fold.processes[p.id])


@pytest.mark.parametrize(("reset_to", "listed"), [(1, ["replayed", "replayed"]), (3, []), (9, [])])
def test_r10_offsets_of_a_stopped_app_that_were_reset_by_hand_are_replays_and_no_accusation(
    world: World, reset_to: int, listed: list[str]
) -> None:
    """App p ran offsets 0 to 2 of `a`, stopped, and somebody set its group to another offset: that is where it goes on.
    What it did of events past that is listed; what is skipped was never run, and nobody is accused for it."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    for offset in range(3):
        event = p.start(A, offset)
        p.send(B, event)
        p.end(event)
    p.feed(StopAsked())
    settle(p, q)
    epoch = world.trigger()
    settle(q)
    (asked,) = [action for action in q.asked if isinstance(action, AskStopped)]
    position = Position(agent="*", topic="a", partition=0, offset=reset_to)
    seen = StoppedSeen(
        epoch=epoch, app="p", asked_at=asked.asked_at, positions=(position,), changelogs=(), ends=()
    )
    for _ in range(2):
        q.feed(seen)
        settle(q)
    assert world.snapshot(epoch).captured_at is not None
    view = CutView(world.fold.captured(epoch))
    source = next(source for source in view.captured.inputs if source.app == "p")
    assert (source.position, source.earlier) == (reset_to, (p.id,))
    log = [
        LogRecord(*B, offset, p.id, 0, offset, cause=(A, offset)) for offset, _ in enumerate(world.log(B)[:3])
    ]
    assert [finding.kind for finding in v5(view, log)] == listed
