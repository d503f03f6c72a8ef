"""R5 and R6: the colour of effects, and events that are torn."""

from __future__ import annotations

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol import Cause, Effect, RecordMet, Status
from tests.worlds.list_checks import v1, v2, v4, v5

from .world import A, B, Process, World, settle


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


def test_r5_a_send_at_once_is_the_three_steps_in_one(world: World, pair: tuple[Process, Process]) -> None:
    """R5, R7: the same colour, cause, seq and counts, whether its event runs, is over, or is none; and nothing is left
    of one that is undone."""
    p, _ = pair
    white, over = p.start(A, 0), p.start(A, 1)
    p.end(over)
    epoch = world.trigger()
    p.catch_up()
    machine, colours = p.machine, []
    for event in (white, over, p.start(A, 2), None):
        at_once, seq = machine.send_at_once(event, B)
        counted = _counts(at_once)
        machine.send_undone(at_once, B, seq)
        undone = _counts(at_once)
        steps = machine.send_entered(event)
        assert (machine.send_stamped(steps, B), steps) == (seq, at_once)
        p.do(machine.send_appended(steps))
        assert _counts(steps) == counted
        p.do(machine.send_acked(steps, B, seq, seq))
        assert _counts(steps) == undone
        colours.append(steps.epoch)
    assert colours == [0, epoch, epoch, epoch]


def _counts(effect: Effect) -> tuple[int, int]:
    return effect.tally.unappended, effect.tally.unacked


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
    assert {t.table for cut in world.fold.captured(first).inputs for t in cut.torn} == {""}, "in a reply"


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


def test_r6_an_event_may_be_torn_twice(world: World) -> None:
    """By a reply of one colour, and by one of a later: each time for other snapshots."""
    p = Process(world, "p", (A,), hear=frozenset({"headers"}))
    white = p.start(A, 0)
    first, second = world.trigger("1"), world.trigger("2")
    p.catch_up()
    p.feed(RecordMet(epoch=second))
    p.do(p.machine.reply_taken(white, first))
    p.do(p.machine.reply_taken(white, second))
    settle(p)
    torn = {
        e: [(t.was, t.met) for cut in world.fold.captured(e).inputs for t in cut.torn]
        for e in (first, second)
    }
    assert torn == {first: [(0, first)], second: [(first, second)]}


def test_r6_what_is_torn_is_reported_with_the_cuts_that_it_crossed(world: World) -> None:
    """Not with one that it is red for anyway, and not with one that both are white for."""
    p = Process(world, "p", (A,))
    white = p.start(A, 0)
    epochs = []
    for offset, name in enumerate(("1", "2", "3"), 1):
        epochs.append(world.trigger(name))
        p.catch_up()
        p.start(A, offset)
    between = Cause("agent", A, 1)
    p.do(p.machine.reply_taken(between, epochs[1]))
    assert {e: [t.offset for t in cut.torn] for e, cut in p.machine.open.cuts.items()} == {
        epochs[0]: [],
        epochs[1]: [1],
        epochs[2]: [],
    }
    p.end(white)


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
    p.machine.key_received("g", "white", 0)
    p.do(p.machine.table_touched(white, "g", "white", write=False))
    p.do(p.machine.table_touched(white, "g", "white", write=True))
    assert p.send(B, white).epoch == 0, "what is white like itself changes nothing"
    p.machine.key_received("g", "k", epoch)
    p.machine.key_received("g", "k", 0)
    p.do(p.machine.table_touched(None, "t", "timer", write=True))
    p.do(p.machine.table_touched(white, "g", "k", write=False))
    settle(p, q)
    assert world.fold.captured(epoch).replays == 1


def test_r6_nothing_is_torn_once_the_white_events_are_done(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, _ = pair
    p.hold_ends = True  # the cut stays open
    white = p.start(A, 0)
    epoch = world.trigger()
    p.catch_up()
    p.end(white)
    assert not p.machine.colours.tearing
    assert p.machine.open.cuts.keys() == {epoch}


def test_r6_a_task_that_outlives_its_event_has_the_colour_of_the_process(
    world: World, pair: tuple[Process, Process]
) -> None:
    """It is no event any more that could be torn; who takes in what it writes is."""
    p, q = pair
    white, ended = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.end(ended)
    assert p.machine.table_touched(ended, "t", "k", write=True) == ()
    assert p.machine.colours.white_running(epoch)
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    assert not p.machine.colours.white_running(epoch)


def test_r6_what_happens_while_nothing_can_be_torn_is_not_remembered(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R6: since the cut; and only while an event runs that started before it."""
    p, _ = pair
    event = p.start(A, 0)
    p.machine.key_received("g", "k", 0)
    assert p.machine.table_touched(event, "t", "k", write=True) == ()
    assert not p.machine.colours.tearing
    assert not p.machine.colours._touched


def test_r6_to_overwrite_what_a_red_event_has_read_tears_too(
    world: World, pair: tuple[Process, Process]
) -> None:
    """EWD 864: white before red only where the two commute; a red read before a white write does not."""
    p, q = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    red = p.start(A, 1)
    p.do(p.machine.table_touched(red, "t", "k", write=False))
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    assert p.machine.colours.white_running(epoch), "two reads commute"
    p.do(p.machine.table_touched(white, "t", "k", write=True))
    assert not p.machine.colours.white_running(epoch)


def test_r6_what_is_done_outside_any_event_has_the_colour_of_the_process(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(None, "t", "k", write=True))
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    assert not p.machine.colours.white_running(epoch)


def test_r5_work_of_several_steps_outside_of_events_may_be_cut_between_two_of_them(
    world: World, pair: tuple[Process, Process]
) -> None:
    """A timer sends twice, and the process cuts between: the snapshot holds the first send only. It is consistent, no
    check finds anything, and nothing shows that the two belong together."""
    p, q = pair
    first = p.send(B)
    epoch = world.trigger()
    settle(p, q)
    second = p.send(B)
    assert (first.epoch, second.epoch) == (0, epoch)
    view = CutView(world.fold.captured(epoch))
    log = [
        LogRecord(*B, offset, sent.process, sent.epoch, sent.seq, sent.marker)
        for offset, sent in enumerate(world.log(B))
    ]
    in_flight = [r.offset for r in log for source in view.inputs[B] if view.in_channel(r, source)]
    assert in_flight == [world.log(B).index(first)]
    assert [*v1(view, log), *v2(view, log), *v4(view, log), *v5(view, log)] == []


def test_an_event_that_starts_or_ends_twice_counts_once(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    event = p.start(A, 0)
    p.start(A, 0)
    p.end(event)
    p.end(event)
    epoch = world.trigger()
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED


def test_a_reply_of_ones_own_colour_tears_nothing(world: World, pair: tuple[Process, Process]) -> None:
    p, _ = pair
    event = p.start(A, 0)
    assert p.machine.reply_taken(event, 0) == ()
    assert p.machine.reply_taken(Cause("agent", A, 77), 0) == (), "nor where the event has ended"


def test_r6_a_batch_goes_on_in_one_colour(world: World, pair: tuple[Process, Process]) -> None:
    """R6: what an agent is handed at once is one step of its: if it takes in something red, all of it does."""
    p, q = pair
    batch = [Cause("agent", A, 0), Cause("agent", A, 1)]
    p.do(p.machine.batch_started(batch))
    assert p.machine.positions.note()[0].offset == 2
    epoch = world.trigger()
    settle(p, q)
    red = p.start(A, 2)
    p.do(p.machine.table_touched(red, "t", "k", write=True))
    p.do(p.machine.event_ended(batch[1]))
    assert world.snapshot(epoch).open
    p.do(p.machine.table_touched(batch[0], "t", "k", write=False))
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [torn.offset for torn in source.torn] == [0], "one of it had ended"


def test_r6_all_of_a_batch_is_torn_with_one_of_it(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    batch = [Cause("agent", A, 0), Cause("agent", A, 1)]
    p.do(p.machine.batch_started(batch))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.reply_taken(batch[1], epoch))
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [torn.offset for torn in source.torn] == [1, 0]
    assert source.position == 0


def test_r6_what_ran_before_its_batch_is_torn_by_a_later_one(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R6: something handled a record in white on its way into a batch that is handed over in red."""
    p, q = pair
    p.do(p.machine.batch_started([]))
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    assert world.snapshot(epoch).open
    p.do(p.machine.batch_started([white, Cause("agent", A, 1)]))
    assert p.machine.send_entered(white).epoch == epoch
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [torn.offset for torn in source.torn] == [0]


def test_r6_work_done_in_the_course_of_a_later_event_has_that_ones_colour(
    world: World, pair: tuple[Process, Process]
) -> None:
    """R6: the event that was worked off there is torn; in the course of one of its own colour, it is not."""
    p, q = pair
    first, second, third = (p.start(A, offset) for offset in range(3))
    p.do(p.machine.worked_off(first, second))
    p.end(first)
    epoch = world.trigger()
    settle(p, q)
    red = p.start(A, 3)
    p.do(p.machine.worked_off(second, red))
    assert [torn.offset for torn in p.machine.open.cuts[epoch].torn] == [1]
    p.do(p.machine.worked_off(third, None))
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [torn.offset for torn in source.torn] == [1, 2]


def test_r6_a_table_read_as_a_whole_takes_in_any_key(world: World, pair: tuple[Process, Process]) -> None:
    """R6: (a table key written by a red event since the cut), whichever key, if all of them are read."""
    p, q = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    red = p.start(A, 1)
    p.do(p.machine.table_read(red, "t"))
    p.do(p.machine.table_touched(red, "other", "k", write=True))
    p.do(p.machine.table_read(white, "t"))
    p.do(p.machine.table_read(None, "other"))
    assert not p.machine.open.cuts[epoch].torn, "of that table nothing was written"
    p.do(p.machine.table_read(white, "other"))
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [(torn.offset, torn.table) for torn in source.torn] == [(0, "other")]


def test_r6_what_red_has_read_as_a_whole_may_not_be_overwritten_in_white(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white = p.start(A, 0)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_read(p.start(A, 1), "t"))
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    assert not p.machine.open.cuts[epoch].torn
    p.do(p.machine.table_touched(white, "t", "k", write=True))
    settle(p, q)
    (source,) = (cut for cut in world.fold.captured(epoch).inputs if cut.topic == "a")
    assert [torn.offset for torn in source.torn] == [0]
