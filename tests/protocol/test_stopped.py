"""R10 and R15: who runs without taking part, what leaves without our header, and the snapshots that they spoil."""

from __future__ import annotations

import pytest

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol import (
    APP_RUNS_WITHOUT,
    SENT_BARE,
    Bye,
    Dead,
    RanWithout,
    SendOutcome,
    Status,
    StopAsked,
    TopicPartition,
)
from tests.worlds.list_checks import v5

from .world import A, B, Process, Stored, World, fold_of, settle


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
    log = [LogRecord(*B, offset, p.id, 0, offset, cause=(A, offset)) for offset in range(3)]
    assert [finding.kind for finding in v5(view, log)] == listed


# -- records that left without our header --------------------------------------------------------------------------


def send_bare(process: Process, tp: TopicPartition) -> int:
    """As a driver does it: nothing is stamped, the machine is told when it leaves and when it is acknowledged."""
    effect = process.machine.send_entered(None)
    log = process.world.log(tp)
    log.append(Stored(-1, 0, -1))
    process.do(process.machine.left_unstamped(tp))
    process.do(process.machine.send_appended(effect))
    process.do(process.machine.settled(effect, tp, None, SendOutcome.ACKED, offset=len(log) - 1))
    return len(log)


def test_r15_a_new_identity_answers_for_what_left_bare_under_the_old_one(
    world: World, p: Process, q: Process
) -> None:
    send_bare(p, B)
    world.append(Dead(process=q.id, n=20_000, dead=p.id))
    p.catch_up()
    p.join()
    p.give(A)
    epoch = world.take(p, q)
    assert world.failure(epoch).code == SENT_BARE


def test_r15_seqs_that_bare_records_would_have_had_are_given_out_again_or_listed(
    world: World, p: Process, q: Process
) -> None:
    stamped = [p.send(B).seq for _ in range(3)]
    p.machine.colours.sent_to(B).unused(1, 2)
    assert [p.send(B).seq for _ in range(2)] == stamped[1:]
    p.machine.colours.sent_to(B).unused(0, 0)
    assert [(r.first, r.last) for r in p.machine.colours.sent[B].unacknowledged] == [(0, 0)], (
        "later ones are out"
    )
    q.feed(StopAsked())


def test_r7_a_bare_record_that_fails_while_a_cut_is_open_aborts(world: World, p: Process, q: Process) -> None:
    event = p.start(A, 0)
    effect = p.machine.send_entered(event)
    epoch = world.trigger()
    p.catch_up()
    p.do(p.machine.send_appended(effect))
    p.do(p.machine.settled(effect, B, None, SendOutcome.REFUSED))
    p.end(event)
    settle(p, q)
    assert world.failure(epoch).code == "send-failed"


def test_r7_a_seq_that_is_given_back_behind_a_failed_record_is_listed(world: World, p: Process) -> None:
    """It cannot be given out again, as later ones were. The bare record gets a seq of its own, or it would be lost
    without a trace."""
    bare, stamped = p.machine.send_entered(None), p.machine.send_entered(None)
    seq = p.machine.send_stamped(stamped, B)
    p.do(p.machine.send_appended(bare))
    p.do(p.machine.settled(bare, B, None, SendOutcome.REFUSED))
    p.machine.send_unstamped(stamped, B, seq)
    p.do(p.machine.send_withdrawn(stamped))
    listed = [(r.first, r.last, r.refused, r.undone) for r in p.machine.colours.sent[B].unacknowledged]
    assert listed == [(seq, seq, True, True), (seq + 1, seq + 1, True, False)]


def test_r15_bare_changes_of_a_table_are_in_its_state(world: World, p: Process, q: Process) -> None:
    changelog = TopicPartition("p-t-changelog", 0)
    p.send(changelog)
    end = send_bare(p, changelog)
    epoch = world.take(p, q)
    captured = world.fold.captured(epoch)
    assert [(cut.process, cut.end) for cut in captured.changelogs if cut.app == "p"] == [(p.id, end)]
