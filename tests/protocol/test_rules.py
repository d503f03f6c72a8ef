"""Each protocol rule of the design, quoted, on the pure machine."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.protocol.actions import AskStopped, ReadLedgerTo, SendMarkers
from snapkafka.protocol.completion import Status
from snapkafka.protocol.events import (
    CameBack,
    ChannelEnded,
    InputsTaken,
    LedgerRecreated,
    MarkerMet,
    RecordMet,
    StopAsked,
    StoppedSeen,
    TimerExpired,
    TriggerAppended,
    WentAbsent,
)
from snapkafka.protocol.records import (
    Abort,
    ChangelogEnd,
    Closed,
    CutReport,
    Dead,
    LogEnd,
    Pause,
    Position,
    Retire,
    TopicPartition,
    Trigger,
    Verdict,
)

from .world import A, B, Process, World, settle


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pair(world: World) -> tuple[Process, Process]:
    """A cycle: p reads A and writes B, q reads B and writes A."""
    p, q = Process(world, "p", (A,)), Process(world, "q", (B,))
    settle(p, q)
    return p, q


def records(process: Process, kind: type) -> list[Any]:
    return [r for r in process.world.ledger if isinstance(r, kind) and r.process == process.id]


# -- R1 -----------------------------------------------------------------------------------------------------------


def test_r1_anyone_triggers_and_the_offset_gives_the_epoch(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R1: Anyone appends `Trigger` to the ledger; its offset gives the epoch."""
    before = len(world.ledger)
    epoch = world.trigger()
    assert epoch == before + 1
    settle(*pair)
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r1_first_trigger_of_an_id_and_attempt_is_the_snapshot(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R1: The first `Trigger` of an (id, attempt) is the snapshot; later ones are no epochs; a retry is the next."""
    first, repeat, retry = world.trigger("x"), world.trigger("x"), world.trigger("x", attempt=2)
    settle(*pair)
    assert world.fold.is_epoch(first)
    assert not world.fold.is_epoch(repeat)
    assert world.fold.is_epoch(retry)
    assert world.fold.by_id == {("x", 1): first, ("x", 2): retry}
    assert [p.epoch for p in pair] == [retry, retry]


def test_r1_any_number_may_run_at_once(world: World, pair: tuple[Process, Process]) -> None:
    """R1: Any number may run at once; no coordinator has to be alive for a snapshot to be captured."""
    epochs = [world.trigger(str(k)) for k in range(5)]
    settle(*pair)
    assert {world.snapshot(e).status for e in epochs} == {Status.CAPTURED}


# -- R2 -----------------------------------------------------------------------------------------------------------


def test_r2_cuts_before_taking_in_red_by_header(world: World, pair: tuple[Process, Process]) -> None:
    """R2: it cuts when it first meets a believed epoch on the header of any record that it is about to take in."""
    p, q = pair
    epoch = world.trigger()
    p.catch_up()
    p.send(B)
    asked = q.machine.handle(RecordMet(epoch=epoch))
    assert asked == [ReadLedgerTo(offset=epoch - 1)], "read the ledger up to the trigger first"
    assert q.epoch == 0
    q.catch_up(epoch)
    assert q.epoch == epoch
    assert q.machine.handle(RecordMet(epoch=epoch)) == []


@pytest.mark.parametrize("hear", ["headers", "markers"])
def test_r2_headers_and_markers_alone_suffice(world: World, hear: str) -> None:
    """R2: in the ledger (fast path), on a marker, or on the header: each alone makes a process red."""
    q = Process(world, "q", (B,), hear=frozenset({hear}))
    epoch = world.trigger()
    q.catch_up()
    assert q.epoch == 0, "it may not hear the ledger"
    q.feed(RecordMet(epoch=epoch) if hear == "headers" else MarkerMet(epoch=epoch))
    assert q.epoch == epoch
    assert q.turned[-1].heard == hear.removesuffix("s")
    report = records(q, CutReport)[-1]
    assert (report.epoch, report.heard) == (epoch, hear.removesuffix("s"))


@pytest.mark.parametrize("event", [RecordMet(epoch=77), MarkerMet(epoch=77)])
def test_r2_a_forged_epoch_cannot_move_a_process(
    world: World, pair: tuple[Process, Process], event: RecordMet
) -> None:
    """R2: a forged, foreign or stale header cannot move a process."""
    p, _ = pair
    assert p.machine.handle(event) == [ReadLedgerTo(offset=76)]
    while len(world.ledger) < 80:
        world.append(Abort(n=len(world.ledger), epoch=1, code="x", reason="y"))
    p.catch_up()
    assert p.machine.handle(event) == [], "the ledger holds no Trigger at 76"
    assert p.epoch == 0


def test_r2_who_asked_hears_its_own_trigger(world: World) -> None:
    """`hear` is for tests and proof; the process that asked for the snapshot cuts for it in any case."""
    q = Process(world, "q", (B,), hear=frozenset({"headers"}))
    q.feed(TriggerAppended(n=5))
    epoch = world.append(Trigger(n=5, id="mine")) + 1
    q.catch_up()
    assert q.epoch == epoch
    assert q.turned[-1].heard == "trigger"


def test_r2_one_cut_serves_all_epochs_between(world: World) -> None:
    """R2: One cut serves all epochs in (e, E]."""
    q = Process(world, "q", (B,), hear=frozenset({"headers"}))
    first, second = world.trigger("1"), world.trigger("2")
    q.catch_up()
    q.feed(RecordMet(epoch=second))
    settle(q)
    assert len(records(q, CutReport)) == len(records(q, Closed)) == 1
    assert world.snapshot(first).status is world.snapshot(second).status is Status.CAPTURED


# -- R3, R4 -------------------------------------------------------------------------------------------------------


def test_r3_the_cut_notes_positions_and_what_runs(world: World, pair: tuple[Process, Process]) -> None:
    """R3: note positions per agent and input (first offset not started), note the running white events."""
    p, _ = pair
    p.end(p.start(A, 0))
    p.start(A, 1)
    epoch = world.trigger()
    p.catch_up()
    report = records(p, CutReport)[-1]
    assert [(x.agent, x.topic, x.partition, x.offset) for x in report.positions] == [("agent", "a", 0, 2)]
    assert [(x.topic, x.offset) for x in report.running] == [("a", 1)]
    assert (report.previous, report.epoch) == (0, epoch)


def test_r4_nothing_is_held(world: World, pair: tuple[Process, Process]) -> None:
    """R4: No event, send or commit ever waits; red records may leave before the report is durable."""
    p, _ = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    p.catch_up(epoch)
    assert p.machine.cuts[epoch].report is None, "the report is not durable yet"
    assert p.send(B, p.start(A, 1)).epoch == epoch
    assert p.send(B, white).epoch == 0


def test_r4_a_report_counts_only_with_its_closed(world: World, pair: tuple[Process, Process]) -> None:
    """R4: a report counts only with its `Closed`, and `Closed` only after the report and every white send are acked."""
    p, q = pair
    p.send(B, p.start(A, 0), ack=False)
    p.end(next(iter(p.machine.colours.running)))
    epoch = world.trigger()
    settle(p, q)
    assert records(p, CutReport)
    assert not records(p, Closed), "a white send is not acknowledged yet"
    assert world.snapshot(epoch).status is Status.CAPTURING
    assert [str(w.what) for w in world.fold.waiting(epoch) if w.process == p.id] == ["closing", "input"]
    p.ack()
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r4_a_closed_that_names_another_report_counts_nothing(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.start(A, 0)  # never ends: no Closed of its own
    epoch = world.trigger()
    settle(p, q)
    world.append(Closed(process=p.id, n=999, epoch=epoch, report=epoch + 500))
    assert world.snapshot(epoch).status is Status.CAPTURING


# -- R5, R6 -------------------------------------------------------------------------------------------------------


def test_r5_a_send_has_the_colour_of_its_event_whenever_it_leaves(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R5: the colour of the running event that causes it (also when it leaves later); outside, of the process."""
    p, _ = pair
    event = p.start(A, 0)
    effect = p.machine.send_entered(event)
    epoch = world.trigger()
    p.catch_up()
    assert effect.epoch == 0
    assert p.machine.send_entered(None).epoch == epoch, "a timer has the colour of the process"
    p.end(event)
    late = p.machine.send_entered(event)
    assert (late.epoch, late.cause) == (epoch, None), "a task that outlives its event"


def test_r6_a_torn_event_is_listed_and_goes_on_in_red(world: World, pair: tuple[Process, Process]) -> None:
    """R6: a white event that would take in something red (a table key written by a red event since the cut) stops
    being white there. It is listed as torn: for every open cut its input counts as not processed."""
    p, q = pair
    white = p.start(A, 0)
    before = p.send(B, white)
    epoch = world.trigger()
    settle(p, q)
    red = p.start(A, 1)
    assert p.machine.colours.tearing
    p.do(p.machine.table_touched(red, "t", "k", write=True))
    p.do(p.machine.table_touched(white, "t", "other", write=False))
    assert world.snapshot(epoch).open
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    p.do(p.machine.table_touched(white, "t", "k", write=True))
    assert not p.machine.colours.white_running(epoch), "nothing white runs any more"
    after = p.send(B, white)
    assert (before.epoch, after.epoch) == (0, epoch)
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED
    captured = world.fold.captured(epoch)
    (torn,) = next(cut.torn for cut in captured.inputs if cut.topic == "a")
    assert (torn.agent, torn.offset, torn.met, torn.table) == ("agent", 0, epoch, "t")
    assert captured.replays == 1
    p.end(white)


def test_r6_a_red_reply_tears(world: World, pair: tuple[Process, Process]) -> None:
    """R6: something red (..., a red RPC reply); and for the cuts that it did not cross, the event stays as it was."""
    p, q = pair
    white = p.start(A, 0)
    first = world.trigger("first")
    p.catch_up()
    between = p.start(A, 1)
    second = world.trigger("second")
    settle(p, q)
    p.do(p.machine.reply_taken(white, first))
    p.do(p.machine.reply_taken(between, first))
    p.end(white)
    p.end(between)
    torn = {e: [t.offset for cut in world.fold.captured(e).inputs for t in cut.torn] for e in (first, second)}
    assert torn == {first: [0], second: []}


def test_r6_an_event_may_be_torn_for_some_of_the_snapshots_that_one_cut_serves(world: World) -> None:
    """One cut serves all epochs in (e, E]; a reply of a colour between them is red for some, white for the others."""
    p = Process(world, "p", (A,), hear=frozenset({"headers"}))
    white = p.start(A, 0)
    first, second = world.trigger("1"), world.trigger("2")
    p.catch_up()
    p.feed(RecordMet(epoch=second))
    p.do(p.machine.reply_taken(white, first))
    p.end(white)
    settle(p)
    torn = {
        e: [(t.was, t.met) for cut in world.fold.captured(e).inputs for t in cut.torn]
        for e in (first, second)
    }
    assert torn == {first: [(0, first)], second: []}


def test_r6_of_three_colours_the_middle_one_tears_too(world: World, pair: tuple[Process, Process]) -> None:
    """A red event may itself be white for a later snapshot: what it writes is red all the same for the first one."""
    p, q = pair
    white = p.start(A, 0)
    first = world.trigger("first")
    p.catch_up()
    between = p.start(A, 1)
    second = world.trigger("second")
    settle(p, q)
    p.do(p.machine.table_touched(between, "t", "k", write=True))
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    p.end(white)
    p.end(between)
    torn = {e: [t.offset for cut in world.fold.captured(e).inputs for t in cut.torn] for e in (first, second)}
    assert torn == {first: [0], second: []}


def test_r6_what_others_wrote_into_a_global_table_has_their_colour(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    p.machine.key_received("g", "k", epoch)
    p.do(p.machine.table_touched(None, "t", "timer", write=True))
    p.do(p.machine.table_touched(white, "g", "k", write=False))
    settle(p, q)
    assert world.fold.captured(epoch).replays == 1


def test_r6_nothing_is_torn_once_the_white_events_are_done(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, _ = pair
    white = p.start(A, 0)
    world.trigger()
    p.catch_up()
    p.end(white)
    assert not p.machine.colours.tearing


# -- R7 -----------------------------------------------------------------------------------------------------------


def test_r7_markers_leave_in_the_instant_of_the_cut_if_nothing_white_runs(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R7: if none is running, each marker enters its partition before the first red record there."""
    p, _ = pair
    p.send(B)
    world.trigger()
    p.catch_up()
    p.send(B)
    assert [(r.marker, r.seq) for r in world.log(B)] == [(False, 0), (True, 1), (False, 2)]


def test_r7_markers_wait_for_white_events_and_sends(world: World, pair: tuple[Process, Process]) -> None:
    """R7: When its white events are done a process sends its markers."""
    p, _ = pair
    p.send(B)
    white = p.start(A, 0)
    epoch = world.trigger()
    p.catch_up()
    p.send(B, p.start(A, 1))  # red, before the marker: the header tells the colours apart
    effect = p.machine.send_entered(white)
    p.end(white)
    assert not [a for a in p.asked if isinstance(a, SendMarkers)], (
        "a white send has entered and is not appended"
    )
    seq = p.machine.send_stamped(effect, B)
    p.do(p.machine.send_appended(effect))
    p.do(p.machine.send_acked(effect, B, seq, 2))
    assert [a.epoch for a in p.asked if isinstance(a, SendMarkers)] == [epoch]


def test_r7_closed_tells_white_ends(world: World, pair: tuple[Process, Process]) -> None:
    """R7: per topic-partition its white end, last white seq and marker."""
    p, q = pair
    p.send(B)
    p.send(B)
    white = p.start(A, 0)
    world.trigger()
    p.catch_up()
    p.send(B, p.start(A, 1))
    p.send(B, white)
    p.end(white)
    settle(p, q)
    (sent,) = records(p, Closed)[-1].sent
    assert (sent.topic, sent.white_end, sent.last_seq, sent.marker) == ("b", 4, 3, 4)


def test_r7_a_failed_white_send_aborts(world: World, pair: tuple[Process, Process]) -> None:
    """R7: A failed white send means no `Closed`: `Abort(E)`, with the reason."""
    p, q = pair
    p.send(B, ack=False)
    epoch = world.trigger()
    settle(p, q)
    effect, tp, seq, _ = p.unacked.popleft()
    p.do(p.machine.send_failed(effect, tp, seq, "too large"))
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert (failure.code, failure.culprit) == ("send-failed", "b[0]")
    assert "too large" in failure.reason


def test_r7_a_failed_red_send_harms_nobody(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.start(A, 0)  # keeps the cut open
    epoch = world.trigger()
    settle(p, q)
    p.send(B, ack=False)
    effect, tp, seq, _ = p.unacked.popleft()
    p.do(p.machine.send_failed(effect, tp, seq, "too large"))
    assert world.snapshot(epoch).open


def test_classic_mode_red_sends_wait_for_the_markers(world: World) -> None:
    """Design, section 4: in classic mode red sends wait until the markers are out, as in 1985."""
    p = Process(world, "p", (A,), classic=True)
    white = p.start(A, 0)
    world.trigger()
    p.catch_up()
    assert p.machine.must_wait(p.machine.send_entered(None))
    late = p.machine.send_entered(white)
    assert not p.machine.must_wait(late), "white sends never wait"
    assert p.machine.is_awaited(late), (
        "the markers wait for it: it must not stand behind a red send that waits for them"
    )
    assert not p.machine.is_awaited(p.machine.send_entered(None))


# -- R8 -----------------------------------------------------------------------------------------------------------


def test_r8_channels_are_known_by_offsets(world: World, pair: tuple[Process, Process]) -> None:
    """R8: Channel state of (s, input) = the white records of s at offsets [receiver's position, b)."""
    p, q = pair
    for _ in range(3):
        p.send(B)
    q.end(q.start(B, 0))
    epoch = world.trigger()
    settle(p, q)
    captured = world.fold.captured(epoch)
    (source,) = [i for i in captured.inputs if i.topic == "b"]
    (sender,) = [s for s in captured.senders if (s.process, s.topic) == (p.id, "b")]
    assert (source.position, sender.white_end, sender.last_seq) == (1, 3, 2)
    assert (source.receiver, source.app) == (q.id, "q")


def test_r8_the_receiver_records_the_channel_at_the_marker(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    p.send(B)
    q.start(B, 0)  # keeps q's cut open until the marker has come
    epoch = world.trigger()
    settle(p, q)
    assert world.log(B)[1].marker
    q.feed(ChannelEnded(tp=B, offset=1, sender=p.id, epoch=epoch, previous=0))
    q.end(next(iter(q.machine.colours.running)))
    settle(p, q)
    (recorded,) = records(q, Closed)[-1].recorded
    assert (recorded.sender, recorded.topic, recorded.start, recorded.end) == (p.id, "b", 1, 1)


def test_r8_senders_that_left_are_named(world: World, pair: tuple[Process, Process]) -> None:
    """R8: for a sender that left before the trigger, the log end in the receiver's `Closed`."""
    p, q = pair
    p.send(B)
    p.feed(StopAsked())
    epoch = world.trigger()
    p2 = Process(world, "p", (A,), assign=False)
    assert p2.epoch == epoch, "born red"
    q.catch_up()
    captured_left = world.snapshot(epoch).left
    assert captured_left == {p.id}


# -- R9 -----------------------------------------------------------------------------------------------------------


def test_r10_a_white_input_given_to_a_red_process_is_cut_where_it_starts(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R10: position after the old owner's commit, and the recovered changelog end, in a supplementary report."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsTaken())
    heir = Process(world, "p", (), assign=False)
    assert heir.epoch == epoch, "born after the trigger: red by birth"
    heir.give(A, positions={A: 7}, recovered=5)
    settle(p, q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    captured = world.fold.captured(epoch)
    (cut,) = (cut for cut in captured.inputs if cut.topic == "a")
    assert (cut.position, cut.receiver) == (7, heir.id)
    assert {(c.process, c.end) for c in captured.changelogs if c.app == "p"} == {(heir.id, 5)}


def test_r10_a_supplement_counts_only_with_its_closed(world: World, pair: tuple[Process, Process]) -> None:
    """A process that is lost between the two fails the snapshot: nobody else can cut what it has read in red."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsTaken())
    settle(p, q)
    heir = Process(world, "p", (), assign=False)
    heir.deaf_to_itself = True
    heir.give(A)
    assert world.snapshot(epoch).supplements
    assert world.snapshot(epoch).open
    world.append(Dead(n=1, dead=heir.id))
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "process-lost"


def test_r9_an_input_that_was_read_in_red_and_moves_on_uncut_fails_the_snapshot(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R9: only who read it first in red knows where; its supplement that lands after the move is void."""
    p, q = pair
    epoch = world.trigger()
    p.feed(InputsTaken())
    settle(p, q)
    heir = Process(world, "p", (), assign=False)
    heir.hold = True  # its supplement is under way
    heir.give(A)
    third = Process(world, "p", (), assign=False)
    third.give(A, generation=2)
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert (failure.code, failure.culprit) == ("input-moved", "a[0]")


def test_r10_inputs_of_a_stopped_app_are_cut_by_the_smallest_id(world: World) -> None:
    """R10: inputs of an app that is not running are cut by the living process with the smallest id."""
    p = Process(world, "p", (A,))
    p.end(p.start(A, 0))
    p.feed(StopAsked())
    q, r = Process(world, "q", (B,)), Process(world, "r", ())
    settle(q, r)
    epoch = world.trigger()
    settle(q, r)
    (asked,) = [action for action in q.asked if isinstance(action, AskStopped)]
    assert not any(isinstance(action, AskStopped) for action in r.asked)
    assert (asked.app, asked.inputs, asked.epoch) == ("p", (A,), epoch)
    q.feed(
        StoppedSeen(
            epoch=epoch,
            app="p",
            asked_at=asked.asked_at,
            positions=(Position(agent="*", topic="a", partition=0, offset=1),),
            changelogs=(ChangelogEnd(table="t", topic="p-t-changelog", partition=0, end=3),),
            ends=(LogEnd(topic="a", partition=0, end=4),),
        )
    )
    settle(q, r)
    assert world.snapshot(epoch).status is Status.CAPTURED
    captured = world.fold.captured(epoch)
    (cut,) = (cut for cut in captured.inputs if cut.app == "p")
    assert (cut.position, cut.log_end, cut.receiver) == (1, 4, q.id)
    assert [(c.app, c.end) for c in captured.changelogs if c.app == "p"] == [("p", 3)]


def test_r10_what_was_asked_of_a_stopped_app_is_void_once_it_runs_again(world: World) -> None:
    p = Process(world, "p", (A,))
    p.feed(StopAsked())
    q = Process(world, "q", (B,))
    epoch = world.trigger()
    settle(q)
    (asked,) = [action for action in q.asked if isinstance(action, AskStopped)]
    heir = Process(world, "p", (A,))
    heir.catch_up()
    position = Position(agent="*", topic="a", partition=0, offset=99)
    q.feed(
        StoppedSeen(
            epoch=epoch, app="p", asked_at=asked.asked_at, positions=(position,), changelogs=(), ends=()
        )
    )
    settle(q, heir)
    (cut,) = (cut for cut in world.fold.captured(epoch).inputs if cut.app == "p")
    assert (cut.position, cut.receiver) == (0, heir.id)


def test_who_wakes_up_late_owns_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """What a process says of an older generation of its group moves nothing."""
    p, q = pair
    p.feed(InputsTaken())
    heir = Process(world, "p", (), assign=False)
    heir.give(A, generation=2)
    p.give(A, generation=1)
    assert world.fold.owner(("p", A)) == heir.id
    epoch = world.trigger()
    settle(p, q, heir)
    assert world.snapshot(epoch).status is Status.CAPTURED
    assert {cut.receiver for cut in world.fold.captured(epoch).inputs} == {heir.id, q.id}


def test_r9_a_late_report_after_a_move_is_void(world: World) -> None:
    p = Process(world, "p", (A,))
    heir = Process(world, "p", (A,), assign=False)
    settle(p, heir)
    epoch = world.trigger()
    heir.give(A)  # reads the ledger up to its own Assigned, and cuts before it runs the input
    assert heir.epoch == epoch
    p.catch_up()  # p's report was made under an Assigned that is not the latest for A any more
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "input-moved"


def test_r9_a_process_cuts_for_the_highest_epoch_of_its_inputs(world: World) -> None:
    """R9: reads the ledger up to it, and cuts for the highest epoch any of them is already cut for."""
    p = Process(world, "p", (A,))
    deaf = Process(world, "p", (), hear=frozenset({"headers"}))
    settle(p, deaf)
    epoch = world.trigger()
    p.catch_up()
    deaf.give(A)
    assert deaf.epoch == epoch
    assert deaf.turned[-1].heard == "assigned"


def test_r10_a_replay_is_reported_until_it_has_caught_up(world: World) -> None:
    """R10: Where effects of inputs past the position are already in the state the report says up to where."""
    p = Process(world, "p", (A,))
    for offset in range(5):
        p.end(p.start(A, offset))
    p.feed(InputsTaken())
    p.give(A, positions={A: 2})
    found = []
    for name in ("at once", "on the way", "after"):
        epoch = world.trigger(name)
        settle(p)
        ((position,),) = (cut.agents for cut in world.fold.captured(epoch).inputs)
        found.append((position.offset, position.replay_until, world.fold.captured(epoch).replays))
        p.end(p.start(A, position.offset))
        p.end(p.start(A, position.offset + 1))
    assert found == [(2, 5, 1), (4, 5, 1), (6, 0, 0)]


def test_r10_a_replay_is_remembered_while_somebody_else_has_the_input(world: World) -> None:
    """It comes back to where it was: what was started here before still goes on, and happens twice."""
    p = Process(world, "p", (A,))
    p.start(A, 0)
    p.feed(InputsTaken())
    p.give()
    p.feed(InputsTaken())
    p.give(A)
    assert [q.replay_until for q in p.machine.positions.note()] == [1]


def test_r10_what_the_recovered_changelog_shows_is_reported_too(world: World) -> None:
    p = Process(world, "p", (), assign=False)
    p.give(A, positions={A: 2}, replay_until=4)
    epoch = world.trigger()
    settle(p)
    ((position,),) = (cut.agents for cut in world.fold.captured(epoch).inputs)
    assert (position.offset, position.replay_until) == (2, 4)


def test_r15_an_absent_process_aborts_what_it_may_have_mixed(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R15: epochs it may have mixed are contaminated, and its next ledger record for them is `Abort`."""
    p, q = pair
    before = world.trigger("before")
    p.hold_ends = True
    p.catch_up()
    p.feed(WentAbsent())
    during = world.trigger("during")
    settle(p, q)
    p.feed(CameBack())
    settle(p, q)
    assert p.epoch == during
    for epoch in (before, during):
        failure = world.snapshot(epoch).failure
        assert failure is not None
        assert failure.code == "contaminated"
    p.hold_ends = False
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_r15_a_process_that_was_absent_from_the_start_aborts_when_it_has_joined(world: World) -> None:
    q = Process(world, "q", (B,))
    epoch = world.trigger()
    p = Process(world, "p", (A,), join=False)
    p.feed(WentAbsent())
    p.join()
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "contaminated"
    p.feed(CameBack())
    settle(p, q)
    after = world.trigger("after")
    settle(p, q)
    assert world.snapshot(after).status is Status.CAPTURED


def test_partitions_that_are_named_later_are_expected(world: World, pair: tuple[Process, Process]) -> None:
    """R11: expected inputs: ..., and partitions first named later (by their reader, or by who sent white into them)."""
    p, q = pair
    new = TopicPartition("b", 1)
    p.send(new)
    epoch = world.trigger()
    settle(p, q)
    assert [str(w) for w in world.fold.waiting(epoch)] == ["the cut of input b[1] by app q"]
    q.give(B, new)
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED
    assert {(c.topic, c.partition) for c in world.fold.captured(epoch).inputs} == {
        ("a", 0),
        ("b", 0),
        ("b", 1),
    }


def test_while_paused_no_trigger_is_an_epoch(world: World, pair: tuple[Process, Process]) -> None:
    """R15: off switches: `pause`/`resume` (a ledger record, no restart)."""
    p, q = pair
    running = world.trigger("running")
    world.append(Pause(n=1, paused=True))
    refused = world.trigger("refused")
    settle(p, q)
    assert p.epoch == running, "what was triggered before is an epoch"
    for epoch in (running, refused):
        failure = world.snapshot(epoch).failure
        assert failure is not None
        assert failure.code == "paused"
    world.append(Pause(n=2, paused=False))
    good = world.trigger("good")
    settle(p, q)
    assert world.snapshot(good).status is Status.CAPTURED


# -- R11 ----------------------------------------------------------------------------------------------------------


def test_r11_a_late_joiner_is_born_red_and_not_waited_for(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R11: id >= E is born red for E. Required senders of E: `Hello` below the trigger without `Bye` or `Dead`."""
    epoch = world.trigger()
    late = Process(world, "late")
    assert late.epoch == epoch
    settle(*pair, late)
    assert late.id not in world.snapshot(epoch).required
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_r11_what_comes_first_stands(world: World, pair: tuple[Process, Process]) -> None:
    """R11: Failed: an `Abort`. What comes first stands."""
    early, late = world.trigger("early"), world.trigger("late")
    world.append(Abort(n=1, epoch=early, code="x", reason="by hand"))
    settle(*pair)
    world.append(Abort(n=2, epoch=late, code="x", reason="too late"))
    assert world.snapshot(early).status is Status.FAILED
    assert world.snapshot(late).status is Status.CAPTURED


def test_r11_repeats_are_dropped(world: World, pair: tuple[Process, Process]) -> None:
    """R11: Every ledger record carries (process, n); repeats are dropped."""
    p, _ = pair
    hello = next(r for r in world.ledger if getattr(r, "app", "") == "p")
    before = len(world.fold.processes)
    world.append(hello)
    assert len(world.fold.processes) == before
    assert p.id in world.fold.processes


def test_r11_garbage_only_moves_the_end(world: World) -> None:
    world.fold.apply(0, None)
    assert world.fold.end == 1


def test_inputs_of_a_stopped_app_are_expected_until_it_is_retired(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R11: Expected inputs: ... stopped apps not retired."""
    p, q = pair
    p.feed(StopAsked())
    epoch = world.trigger()
    settle(q)
    assert [(w.what, w.app, w.topic) for w in world.fold.waiting(epoch)] == [("input", "p", "a")]
    world.append(Retire(n=3, app="p"))
    assert world.snapshot(epoch).status is Status.CAPTURED


# -- R12 ----------------------------------------------------------------------------------------------------------


def test_r12_ttl_names_the_culprit_and_the_dead_are_not_waited_for_again(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R12: aborted by whoever notices; who notices appends `Dead(p)`, so that the next one does not wait for it."""
    p, q = pair
    epoch = world.trigger()
    p.catch_up()  # q is silent
    p.feed(TimerExpired(epoch=epoch))
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "ttl"
    assert f"process {q.id}" in failure.culprit
    assert [r.dead for r in world.ledger if isinstance(r, Dead)] == [q.id]
    assert p.feed(TimerExpired(epoch=epoch)) == [], "decided: a late timer is harmless"
    assert q.id not in world.snapshot(world.trigger("next")).required


def test_r12_a_process_that_reads_its_own_dead_takes_a_new_identity(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R12: a process that reads its own `Dead` takes a new identity before it sends again."""
    p, _ = pair
    p.send(B, p.start(A, 0), ack=False)
    world.append(Dead(n=9, dead=p.id))
    p.catch_up()
    assert p.machine.process is None
    p.ack()  # an acknowledgement from the earlier life does no harm
    assert p.machine.colours.sent == {}


def test_r12_nobody_closes_for_somebody_else(world: World, pair: tuple[Process, Process]) -> None:
    """R12: a required sender that dies fails E."""
    p, q = pair
    p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    p.feed(StopAsked())
    failure = world.snapshot(epoch).failure
    assert failure is not None
    assert failure.code == "process-lost"
    assert str(p.id) in failure.culprit


def test_an_aborted_snapshot_leaves_no_memory_behind(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    p.start(A, 0)
    for k in range(50):
        epoch = world.trigger(str(k))
        settle(p, q)
        world.append(Abort(n=10_000 + k, epoch=epoch, code="x", reason="y"))
        settle(p, q)
    assert not p.machine.cuts
    assert not q.machine.cuts
    assert len(p.machine.colours._tallies) <= 2


# -- R13 ----------------------------------------------------------------------------------------------------------


def test_r13_captured_is_not_yet_completed(world: World, pair: tuple[Process, Process]) -> None:
    """R13: verification appends `Verdict`; a partial snapshot is never listed as good."""
    good, bad = world.trigger("good"), world.trigger("bad")
    settle(*pair)
    failed = world.trigger("failed")
    world.append(Abort(n=1, epoch=failed, code="x", reason="y"))
    world.append(Verdict(n=2, epoch=good, verdict="VERIFIED"))
    world.append(Verdict(n=3, epoch=failed, verdict="VERIFIED"))
    assert world.snapshot(good).status is Status.COMPLETED
    assert world.snapshot(bad).status is Status.CAPTURED
    assert world.snapshot(failed).status is Status.FAILED


def test_a_recreated_ledger_starts_a_new_life(world: World, pair: tuple[Process, Process]) -> None:
    p, _ = pair
    world.trigger()
    p.catch_up()
    p.feed(LedgerRecreated())
    assert p.machine.process is None
    assert p.epoch == 0
    assert p.machine.ledger.end == 0
