"""R7 and R8: when a process reports, what its `Report` says, and channels as offsets."""

from __future__ import annotations

import pytest

from snapkafka.protocol import (
    TOPIC_RECREATED,
    Abort,
    AppendToLedger,
    Bye,
    ChannelEnded,
    Dead,
    Hello,
    InputTopic,
    LedgerRead,
    LogEnd,
    MarkerSettled,
    OldTopic,
    RecordMet,
    Report,
    SendOutcome,
    Sent,
    SentEnd,
    SeqRange,
    StartTimer,
    Status,
    Table,
    TopicPartition,
    TurnedRed,
)
from snapkafka.protocol.ledger_fold import KEEP_DECIDED
from snapkafka.protocol.sent import RANGES_MAX

from .world import A, B, Process, World, records, settle


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


def test_r7_a_white_send_that_will_leave_as_another_or_never_aborts(
    world: World, p: Process, q: Process
) -> None:
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
    assert [record.marker for record in world.log(changelog)] == [False]
    assert [record.marker for record in world.log(B)] == [False, True]
    assert world.snapshot(epoch).captured_at is not None


def test_r15_a_marker_that_cannot_be_sent_by_who_was_taken_for_dead_meanwhile_harms_nobody(
    world: World, p: Process, q: Process
) -> None:
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


def test_r15_a_memory_of_failed_sends_that_overflows_names_more_of_them_never_less(
    world: World, p: Process, q: Process
) -> None:
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
def test_r7_what_landed_of_unknown_results_counts_below_the_marker(
    refused: bool, marker: int, landed: int
) -> None:
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
    for unknown in (
        MarkerSettled(epoch=9_999, tp=B, failure="x"),
        MarkerSettled(epoch=1, tp=A, failure="x", seq=0),
    ):
        p.feed(unknown)
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
    assert {
        epoch: [(r.start, r.end) for r in cut.recorded] for epoch, cut in q.machine.open.cuts.items()
    } == {first: [(1, 5)], second: [(1, 6)]}
    q.feed(ChannelEnded(tp=B, offset=0, sender=8, epoch=first, previous=0))
    assert q.machine.open.cuts[first].recorded[-1].start == 0, (
        "a marker below our position: the channel is empty"
    )


def test_a_cut_for_a_snapshot_that_is_long_forgotten_still_closes_for_an_older_one(world: World) -> None:
    """One cut serves all epochs in (e, E]; E may be decided, and so many after it that nobody remembers it."""
    q = Process(world, "q", (B,), hear=frozenset({"headers"}))
    running = q.start(B, 0)
    first, second = world.trigger("first", ttl_ms=10**9), world.trigger("second")
    q.catch_up()
    q.feed(RecordMet(epoch=second))
    for n in range(KEEP_DECIDED + 5):
        world.append(
            Abort(n=n, epoch=second if n == 0 else world.trigger(f"later {n}"), code="x", reason="y")
        )
    q.catch_up()
    assert second not in q.machine.ledger.snapshots
    q.end(running)
    q.catch_up()
    assert world.snapshot(first).status is Status.CAPTURED


# -- log ends that the trigger has (R8) ------------------------------------------------------------------------------


def test_r8_an_end_that_the_author_may_not_read_is_not_known(world: World, p: Process, q: Process) -> None:
    p.end(p.start(A, 0))
    epoch = world.take(p, q, ends=(LogEnd(topic="b", partition=0, end=5),))
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
