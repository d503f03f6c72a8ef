"""R6: the colour of an event that another works off, that is handed over in a batch, that reads a table as a whole."""

from __future__ import annotations

from snapkafka.protocol import Cause

from .world import A, B, Process, World, settle


def torn(process: Process, epoch: int) -> list[tuple[int, int, str]]:
    """What the open cut of `epoch` lists: offset, colour that was met, table."""
    return [(event.offset, event.met, event.table) for event in process.machine.open.cuts[epoch].torn]


# -- worked off by another -----------------------------------------------------------------------------------


def test_r6_work_done_in_the_course_of_a_white_event_is_white_whatever_the_process_is(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white, by = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    assert p.machine.worked_off(white, by) == ()
    assert p.send(B, white).epoch == 0
    assert torn(p, epoch) == []


def test_r6_work_done_by_what_outlives_its_event_has_the_colour_of_the_process(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white, ended = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.end(ended)
    p.do(p.machine.worked_off(white, ended))
    assert p.send(B, white).epoch == epoch


# -- batches -------------------------------------------------------------------------------------------------


def test_r6_a_batch_has_the_latest_colour_in_it_wherever_that_stands(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white = p.start(A, 0)
    world.trigger()
    settle(p, q)
    red = p.start(A, 1)
    p.do(p.machine.batch_started([red, white]))
    assert [p.machine.send_entered(event).epoch for event in (red, white)] == [p.epoch, p.epoch]


def test_r6_of_a_whole_batch_it_is_reported_which_table_tore_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    batch = [Cause("agent", A, 0), Cause("agent", A, 1)]
    p.do(p.machine.batch_started(batch))
    other = p.start(A, 2)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(p.start(A, 3), "t", "k", write=True))
    p.do(p.machine.table_touched(batch[0], "t", "k", write=False))
    assert torn(p, epoch) == [(0, epoch, "t"), (1, epoch, "t")]
    assert p.send(B, other).epoch == 0, "none of the batch"


def test_r6_what_was_in_a_batch_and_runs_again_by_itself_tears_nothing_with_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    """Its part in the batch was over when it ended; so it is for an event that was in none."""
    p, q = pair
    alone = p.start(A, 0)
    first, second = Cause("agent", A, 1), Cause("agent", A, 2)
    p.do(p.machine.batch_started([first, second]))
    p.end(first)
    p.end(alone)
    p.do(p.machine.event_started(first))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.reply_taken(first, epoch))
    assert torn(p, epoch) == [(1, epoch, "")]
    assert p.send(B, second).epoch == 0


# -- whole tables --------------------------------------------------------------------------------------------


def test_r6_what_outlives_its_event_may_read_a_whole_table(
    world: World, pair: tuple[Process, Process]
) -> None:
    """In the colour of the process: no white event may write there any more."""
    p, q = pair
    white, ended = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.end(ended)
    assert p.machine.table_read(ended, "t") == ()
    p.do(p.machine.table_touched(white, "t", "k", write=True))
    assert p.send(B, white).epoch == epoch


def test_r6_a_table_was_read_in_the_colour_that_an_event_took_on_by_it(
    world: World, pair: tuple[Process, Process]
) -> None:
    """One white event reads what red wrote, and is red; what it has read another one may not overwrite in white."""
    p, q = pair
    reader, writer = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(p.start(A, 2), "t", "k", write=True))
    p.do(p.machine.table_read(reader, "t"))
    p.do(p.machine.table_touched(writer, "t", "another", write=True))
    assert p.send(B, writer).epoch == epoch


def test_r6_what_is_read_in_white_after_red_has_read_it_was_read_in_red_all_the_same(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    reader, writer = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_read(p.start(A, 2), "t"))
    p.do(p.machine.table_read(reader, "t"))
    p.do(p.machine.table_touched(writer, "t", "k", write=True))
    assert torn(p, epoch) == [(1, epoch, "t")]


def test_r6_what_white_has_read_as_a_whole_white_may_overwrite(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    reader, writer = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_read(reader, "t"))
    assert p.machine.table_touched(writer, "t", "k", write=True) == ()
    assert torn(p, epoch) == []


# -- changes with no record ----------------------------------------------------------------------------------


def test_r6_a_key_that_expires_in_red_is_written(world: World, pair: tuple[Process, Process]) -> None:
    """A window expires outside any event, in the colour of the process: who reads it in white takes that in."""
    p, q = pair
    white, other = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(None, "t", "k", write=True))
    p.do(p.machine.table_touched(other, "t", "l", write=False))
    assert torn(p, epoch) == [], "nobody has looked at it yet"
    p.do(p.machine.table_touched(white, "t", "k", write=False))
    assert torn(p, epoch) == [(0, epoch, "t")]


def test_r6_a_table_that_a_rebalance_changes_is_written_at_any_key(
    world: World, pair: tuple[Process, Process]
) -> None:
    """By who holds a key of it or goes over it at once, by others where they look at it."""
    p, q = pair
    holds, goes_over, reads, elsewhere = (p.start(A, offset) for offset in range(4))
    assert p.machine.table_rewritten("t") == (), "before the cut that is white"
    p.do(p.machine.value_held(holds, "t", "k", unrecorded=False))
    p.do(p.machine.value_held(elsewhere, "u", "k", unrecorded=False))
    p.do(p.machine.table_iterated(goes_over, "t"))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_rewritten("t"))
    assert sorted(torn(p, epoch)) == [(0, epoch, "t"), (1, epoch, "t")]
    p.do(p.machine.table_touched(elsewhere, "u", "l", write=False))
    p.do(p.machine.table_touched(reads, "t", "new", write=False))
    assert sorted(torn(p, epoch)) == [(0, epoch, "t"), (1, epoch, "t"), (2, epoch, "t")]


def test_r6_who_counts_a_table_that_a_rebalance_changed_takes_that_in(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    white, _ = p.start(A, 0), p.start(A, 1)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_rewritten("t"))
    p.do(p.machine.table_read(white, "t"))
    assert torn(p, epoch) == [(0, epoch, "t")]
