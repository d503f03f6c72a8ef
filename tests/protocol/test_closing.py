"""R7, R8 and R15: when a process reports, what its `Report` says, channels as offsets, records without our header."""

from __future__ import annotations

import pytest

from snapkafka.protocol.actions import AppendToLedger, StartTimer, TurnedRed
from snapkafka.protocol.captured_snapshot import OldTopic
from snapkafka.protocol.events import ChannelEnded, LedgerRead, MarkerSettled, RecordMet
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.ledger_fold import KEEP_DECIDED
from snapkafka.protocol.offsets import InputTopic, SentEnd, SeqRange, Table, TopicPartition
from snapkafka.protocol.records import SENT_BARE, TOPIC_RECREATED, Abort, Bye, Dead, Hello, Report
from snapkafka.protocol.sent import RANGES_MAX, Sent
from snapkafka.protocol.snapshots import Status

from .world import A, B, Process, Stored, World, log_ends, records, settle


def test_r7_who_has_sent_nothing_and_reads_nothing_asks_the_broker_for_nothing(world: World) -> None:
    p = Process(world, "p")
    epoch = world.trigger(ttl_ms=77)
    actions = p.feed(LedgerRead(offset=epoch - 1, record=world.ledger[-1]))
    (report,) = records(p, Report)
    assert actions == [
        TurnedRed(epoch=epoch, previous=0, heard="ledger"),
        AppendToLedger(record=report),
        StartTimer(epoch=epoch, ttl_ms=77),
    ]
    assert report.assigned == -1, "no inputs yet"


def test_r7_a_white_send_that_is_given_up_aborts(world: World, p: Process, q: Process) -> None:
    """R7: A failed white send means no `Report`. So does one that was given up with its
    transaction; the next snapshot does not wait for it."""
    white = p.machine.send_entered(p.start(A, 0))
    epoch = world.take(p, q)
    red = p.machine.send_entered(p.start(A, 1))
    p.do(p.machine.send_given_up(red, "waited", culprit="a[0]"))
    assert world.snapshot(epoch).open, "a red one harms nobody"
    p.do(p.machine.send_given_up(white, "was undone", culprit="a[0]"))
    settle(p, q)
    failure = world.failure(epoch)
    assert (failure.code, failure.culprit) == ("send-failed", "a[0]")
    assert "was undone" in failure.reason
    for event in list(p.machine.colours.running):
        p.end(event)
    late = p.machine.send_entered(None)
    assert not p.machine.send_given_up(late, "waited", culprit="a[0]"), "no cut is open"
    next_one = world.take(p, q, name="next")
    assert world.snapshot(next_one).status is Status.CAPTURED


def test_r7_a_marker_that_cannot_be_sent_aborts(world: World, p: Process, q: Process) -> None:
    """R7: `Report` when report, white sends and markers are acknowledged."""
    other = world.trigger("other")
    p.start(A, 0)
    epoch = world.take(p, q, name="this")
    p.feed(MarkerSettled(epoch=epoch, tp=B, failure="not allowed"))
    failure = world.failure(epoch)
    assert (failure.code, failure.culprit) == ("marker-failed", "b[0]")
    assert world.snapshot(other).failure is None


def test_no_marker_goes_into_a_changelog(world: World, p: Process, q: Process) -> None:
    """Whatever the trigger says: an earlier release names it where another app reads it."""
    changelog = TopicPartition("p-t-changelog", 0)
    p.send(changelog)
    p.send(B)
    epoch = world.take(p, q, marker_topics=("a", "b", changelog.topic))
    assert [record.marker for record in world.logs[changelog]] == [False]
    assert [record.marker for record in world.logs[B]] == [False, True]
    assert world.snapshot(epoch).captured_at is not None


def test_r15_a_failed_marker_of_who_is_dead_harms_nobody(world: World, p: Process, q: Process) -> None:
    """It is told in the midst of a send of the app's: what is raised here the app would get."""
    p.start(A, 0)
    epoch = world.take(p, q)
    world.append(Dead(n=5, dead=p.id))
    p.catch_up()
    assert p.machine.process is None, "else nothing is shown"
    assert p.feed(MarkerSettled(epoch=epoch, tp=B, failure="not allowed")) == []


def sent_in(world: World, p: Process, q: Process) -> SentEnd:
    """What the next snapshot, without markers, is told of B."""
    epoch = world.take(p, q, name=f"s{world.number()}", marker_topics=())
    assert world.snapshot(epoch).failure is None
    sent: SentEnd
    (sent,) = records(p, Report)[-1].sent
    return sent


def test_r15_an_overflowing_memory_names_more_never_less(world: World, p: Process, q: Process) -> None:
    """Design, section 11: bounded memories weaken a verdict when they overflow; they never accuse."""
    failed = dict[int, SendOutcome]()
    for n in range(5 * RANGES_MAX):
        outcome = (SendOutcome.UNKNOWN, SendOutcome.REFUSED, SendOutcome.UNDONE)[n % 3]
        p.send(B, ack=False)
        failed[p.settle(outcome).seq] = outcome
        for _ in range(1 + n % 4):
            p.send(B)
    sent = sent_in(world, p, q)
    assert len(sent.unacknowledged) == RANGES_MAX
    named = {seq for item in sent.unacknowledged for seq in range(item.first, item.last + 1)}
    assert failed.keys() < named
    assert max(named) <= sent.last_seq
    for item in sent.unacknowledged:
        of = {outcome for seq, outcome in failed.items() if item.first <= seq <= item.last}
        assert (item.refused, item.undone) == (SendOutcome.UNKNOWN not in of, of == {SendOutcome.UNDONE})


@pytest.mark.parametrize(("refused", "marker", "landed"), [(False, 9, 9), (False, -1, 0), (True, 9, 0)])
def test_r7_unknown_results_count_below_the_marker(refused: bool, marker: int, landed: int) -> None:
    lost = (SeqRange(first=3, last=4, refused=refused),)
    sent = SentEnd(topic="b", partition=0, white_end=1, last_seq=2, marker=marker, unacknowledged=lost)
    assert sent.landed_end == landed


def test_r7_the_seq_of_a_marker_that_failed_is_reported(world: World, p: Process, q: Process) -> None:
    """Nobody could tell it from a record that was lost."""
    p.send(B)
    seq = p.machine.colours.stamp(B)
    p.feed(MarkerSettled(epoch=9_999, tp=B, failure="timed out", seq=seq))
    p.send(B)
    assert sent_in(world, p, q).unacknowledged == (SeqRange(first=seq, last=seq),)
    p.feed(MarkerSettled(epoch=9_999, tp=B, failure="x"))
    p.feed(MarkerSettled(epoch=1, tp=A, failure="x", seq=0))
    assert sent_in(world, p, q).unacknowledged == (SeqRange(first=seq, last=seq),)


def test_r8_a_marker_ends_the_channel_of_just_the_cuts_that_it_is_for(world: World) -> None:
    """A marker serves the epochs in (previous, epoch] of its sender; the receiver may have cut for others too."""
    q = Process(world, "q", (B,))
    q.start(B, 0)
    first, second = world.trigger("1"), world.trigger("2")
    q.catch_up()
    q.feed(ChannelEnded(tp=B, offset=5, sender=7, epoch=first, previous=0))
    q.feed(ChannelEnded(tp=B, offset=6, sender=7, epoch=second, previous=first))
    q.feed(ChannelEnded(tp=A, offset=7, sender=7, epoch=second, previous=0))
    cuts = q.machine.open.cuts
    recorded = {epoch: [(r.start, r.end) for r in cut.recorded] for epoch, cut in cuts.items()}
    assert recorded == {first: [(1, 5)], second: [(1, 6)]}
    q.feed(ChannelEnded(tp=B, offset=0, sender=8, epoch=first, previous=0))
    assert cuts[first].recorded[-1].start == 0, "a marker below our position: the channel is empty"


def test_a_cut_for_a_snapshot_that_is_long_forgotten_still_closes_for_an_older_one(world: World) -> None:
    """One cut serves all epochs in (e, E]; E may be decided, and so many after it that nobody remembers it."""
    q = Process(world, "q", (B,), hear=frozenset({"headers"}))
    running = q.start(B, 0)
    first, second = world.trigger("first", ttl_ms=10**9), world.trigger("second")
    q.catch_up()
    q.feed(RecordMet(epoch=second))
    for n in range(KEEP_DECIDED + 5):
        epoch = world.trigger(f"later {n}") if n else second
        world.append(Abort(n=n, epoch=epoch, code="x", reason="y"))
    q.catch_up()
    assert second not in q.machine.ledger.snapshots
    q.end(running)
    q.catch_up()
    assert world.snapshot(first).status is Status.CAPTURED


# -- log ends that the trigger has (R8) ------------------------------------------------------------------------------


def test_r8_an_end_that_the_author_may_not_read_is_not_known(world: World, p: Process, q: Process) -> None:
    p.end(p.start(A, 0))
    epoch = world.take(p, q, ends=log_ends((B, 5)))
    cuts = world.fold.captured(epoch).inputs
    assert [(cut.topic, cut.log_end, cut.end_known) for cut in cuts] == [("a", 1, False), ("b", 5, True)]


# -- topics that were recreated: ends of the old one stand for nothing (R7; design, 12) ----------------------------


def hello(app: str, n: int, *inputs: InputTopic) -> Hello:
    table = Table(name="t", changelog=f"{app}-t-changelog", partitions=1)
    return Hello(n=n, app=app, inputs=inputs, tables=(table,))


def test_r7_acknowledgements_in_any_order_show_no_other_topic() -> None:
    sent = Sent()
    for seq in (3, 1, 2, 0, 5, 4):
        sent.acked(seq % 2, seq, seq)
    assert (sent.recreated, sent.white(2)) == (-1, (5, 6))


def test_r11_who_knew_a_topic_before_it_was_recreated_is_listed(world: World) -> None:
    """By another id in its `Hello`, though it has left; or as it joined before anybody named the present one."""
    p = Process(world, "p", (A,))  # sends to b, and reads nothing of it
    old = world.append(hello("q", 1, InputTopic(topic="b", partitions=1, topic_id="old")))
    q = Process(world, hello=hello("q", 2, InputTopic(topic="b", partitions=1, topic_id="new")))
    later = Process(world, hello=hello("later", 3))
    early = world.failure(world.trigger("early"))
    assert early.code == TOPIC_RECREATED, "the one that knew it still runs"
    world.append(Bye(process=old, n=1))
    q.give(B)
    later.give(A)
    epoch = world.take(p, q, later, name="snap")
    captured = world.fold.captured(epoch)
    assert captured.old_topics == (OldTopic(process=p.id, topic="b"), OldTopic(process=old, topic="b"))


def test_r11_where_the_present_id_of_a_topic_is_unknown_nobody_knew_another_one(world: World) -> None:
    old = world.append(hello("q", 1, InputTopic(topic="b", partitions=1, topic_id="old")))
    world.append(Bye(process=old, n=1))
    q = Process(world, hello=hello("q", 2, InputTopic(topic="b", partitions=1)))
    q.give(B)
    assert world.fold.captured(world.take(q)).old_topics == ()


def test_r7_acknowledgements_of_the_old_topic_that_come_late_stand_for_nothing() -> None:
    sent = Sent()
    sent.acked(0, 78, 78)
    sent.failed(77, 77, refused=False)
    sent.acked(0, 82, 1)  # of the new one
    sent.acked(0, 79, 79)
    sent.acked(0, 81, 0)
    assert sent.white(1) == (82, 2)
    assert sent.unacknowledged == ()


# -- records that left without our header --------------------------------------------------------------------------


def send_bare(process: Process, tp: TopicPartition) -> int:
    """As a driver does it: nothing is stamped, the machine is told when it leaves and when it is acknowledged."""
    effect = process.machine.send_entered(None)
    log = process.world.logs[tp]
    log.append(Stored(-1, 0, -1))
    process.do(process.machine.left_unstamped(tp))
    process.do(process.machine.send_appended(effect))
    process.do(process.machine.settled(effect, tp, None, SendOutcome.ACKED, offset=len(log) - 1))
    return len(log)


def test_r15_a_new_identity_answers_for_bare_records_of_the_old(world: World, p: Process, q: Process) -> None:
    send_bare(p, B)
    world.append(Dead(process=q.id, n=20_000, dead=p.id))
    p.catch_up()
    p.join()
    p.give(A)
    epoch = world.take(p, q)
    assert world.failure(epoch).code == SENT_BARE


def test_r15_seqs_of_bare_records_are_given_again_or_listed(p: Process) -> None:
    stamped = [p.send(B).seq for _ in range(3)]
    sent = p.machine.colours.sent_to(B)
    sent.unused(1, 2)
    assert [p.send(B).seq for _ in range(2)] == stamped[1:]
    sent.unused(0, 0)
    assert [(r.first, r.last) for r in sent.unacknowledged] == [(0, 0)], "later ones are out"


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
