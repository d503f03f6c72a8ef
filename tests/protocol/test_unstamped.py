"""R15: records that left without our header, and the snapshots that they spoil."""

from __future__ import annotations

from snapkafka.protocol import (
    SENT_BARE,
    Dead,
    Report,
    SendOutcome,
    Status,
    StopAsked,
    TopicPartition,
)

from .world import A, B, Process, Stored, World, records, settle


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


def test_r7_a_bare_record_that_fails_is_reported_by_a_seq_of_its_own(
    world: World, p: Process, q: Process
) -> None:
    """It would be lost without a trace: no seq is missing, as it had none."""
    p.send(B)
    effect = p.machine.send_entered(None)
    p.do(p.machine.send_appended(effect))
    p.do(p.machine.settled(effect, B, None, SendOutcome.REFUSED))
    p.send(B)
    epoch = world.take(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED
    (sent,) = [sent for report in records(p, Report) for sent in report.sent if sent.topic == "b"]
    assert [(r.first, r.last, r.refused, r.undone) for r in sent.unacknowledged] == [(1, 1, True, False)]
    assert sent.last_seq == 2


def test_r15_seqs_that_bare_records_would_have_had_are_given_out_again_or_listed(
    world: World, p: Process, q: Process
) -> None:
    stamped = [p.send(B).seq for _ in range(3)]
    p.machine.colours.unused(B, 1, 2)
    assert [p.send(B).seq for _ in range(2)] == stamped[1:]
    p.machine.colours.unused(B, 0, 0)
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
    """It cannot be given out again, as later ones were."""
    bare, stamped = p.machine.send_entered(None), p.machine.send_entered(None)
    seq = p.machine.send_stamped(stamped, B)
    p.do(p.machine.send_appended(bare))
    p.do(p.machine.settled(bare, B, None, SendOutcome.REFUSED))
    p.machine.send_unstamped(stamped, B, seq)
    p.do(p.machine.send_withdrawn(stamped))
    listed = [(r.first, r.last, r.undone) for r in p.machine.colours.sent[B].unacknowledged]
    assert listed == [(seq, seq, True), (seq + 1, seq + 1, False)]


def test_r15_bare_changes_of_a_table_are_in_its_state(world: World, p: Process, q: Process) -> None:
    changelog = TopicPartition("p-t-changelog", 0)
    p.send(changelog)
    end = send_bare(p, changelog)
    epoch = world.take(p, q)
    captured = world.fold.captured(epoch)
    assert [(cut.process, cut.end) for cut in captured.changelogs if cut.app == "p"] == [(p.id, end)]
