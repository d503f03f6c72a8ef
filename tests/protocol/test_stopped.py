"""R10: when an app counts as one that does not run, and who spoils a snapshot by running without taking part."""

from __future__ import annotations

import pytest

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol import (
    APP_RUNS_WITHOUT,
    AppendToLedger,
    Bye,
    Hello,
    InputTopic,
    Joined,
    LedgerRead,
    LedgerState,
    RanWithout,
    Status,
    StopAsked,
    Trigger,
    WorkerProtocol,
)
from tests.worlds.list_checks import v5

from .world import A, B, Process, World, settle


def stopped(world: World) -> Process:
    """App p has stopped; the process of another one that runs."""
    p = Process(world, "p", (A,))
    p.feed(StopAsked())
    return Process(world, "q", (B,))


def test_r10_what_was_captured_while_somebody_stood_down_unread_cannot_be_proven(world: World) -> None:
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    epoch = world.take(p, q)
    captured_at = world.snapshot(epoch).captured_at
    assert captured_at is not None
    for since, contaminated in ((captured_at + 1, False), (captured_at, True)):
        fold = LedgerState()
        for record in (*world.ledger, Bye(process=p.id, n=1_000, goes_on=True, since=since)):
            fold.apply(fold.end, record)
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
    epoch = world.take(q, stopped=world.stopped({A: reset_to}))
    assert world.snapshot(epoch).captured_at is not None
    view = CutView(world.fold.captured(epoch))
    source = next(source for source in view.captured.inputs if source.app == "p")
    assert (source.position, source.earlier) == (reset_to, (p.id,))
    log = [
        LogRecord(*B, offset, p.id, 0, offset, cause=(A, offset)) for offset, _ in enumerate(world.log(B)[:3])
    ]
    assert [finding.kind for finding in v5(view, log)] == listed
