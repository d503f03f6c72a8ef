"""R6: a running white event that holds something of a table that red changes is torn at once."""

from __future__ import annotations

import pytest

from snapkafka.protocol import Cause

from .world import A, B, Process, World, settle


def torn(process: Process, epoch: int) -> list[tuple[int, str]]:
    """What the open cut of `epoch` lists: offset, table."""
    return [(event.offset, event.table) for event in process.machine.open.cuts[epoch].torn]


@pytest.mark.parametrize("unrecorded", [False, True])
def test_r6_who_holds_a_value_sees_what_red_writes(
    world: World, pair: tuple[Process, Process], *, unrecorded: bool
) -> None:
    """Looked up before the cut; no look follows that anybody hears of."""
    p, q = pair
    holder, other, done = p.start(A, 0), p.start(A, 1), p.start(A, 2)
    for event, key in ((holder, "k"), (other, "another"), (done, "k")):
        p.do(p.machine.value_held(event, "t", key, unrecorded=unrecorded))
    p.end(done)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(p.start(A, 3), "t", "k", write=True))
    assert torn(p, epoch) == [(0, "t")]
    assert [p.send(B, event).epoch for event in (holder, other)] == [epoch, 0]


def test_r6_what_is_changed_in_place_may_be_changed_from_the_look_on(
    world: World, pair: tuple[Process, Process]
) -> None:
    """A list in memory is changed first, and set later: who sees it in between has seen red."""
    p, q = pair
    holder, later, _ = p.start(A, 0), p.start(A, 1), p.start(A, 2)
    p.do(p.machine.value_held(holder, "t", "k", unrecorded=True))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.value_held(p.start(A, 3), "t", "k", unrecorded=True))
    assert torn(p, epoch) == [(0, "t")]
    p.do(p.machine.value_held(later, "t", "k", unrecorded=True))
    assert torn(p, epoch) == [(0, "t"), (1, "t")]


def test_r6_a_set_of_which_each_change_is_recorded_may_be_looked_at_in_red(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    holder, later = p.start(A, 0), p.start(A, 1)
    p.do(p.machine.value_held(holder, "t", "k", unrecorded=False))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.value_held(p.start(A, 2), "t", "k", unrecorded=False))
    p.do(p.machine.value_held(later, "t", "k", unrecorded=False))
    assert torn(p, epoch) == []


def test_r6_who_is_torn_may_change_what_it_holds(world: World, pair: tuple[Process, Process]) -> None:
    """And so tears whoever else holds that; and nobody overwrites in white what it reads on in red."""
    p, q = pair
    first, second, third, apart = (p.start(A, n) for n in range(4))
    for event, key in ((first, "k"), (first, "l"), (second, "l"), (second, "m"), (third, "m"), (apart, "n")):
        p.do(p.machine.value_held(event, "t", key, unrecorded=True))
    p.do(p.machine.table_iterated(first, "u"))
    writer = p.start(A, 4)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.reply_taken(first, epoch))
    assert torn(p, epoch) == [(0, ""), (1, "t"), (2, "t")]
    p.do(p.machine.table_touched(writer, "u", "k", write=True))
    assert torn(p, epoch)[3:] == [(4, "u")]
    assert p.send(B, apart).epoch == 0


def test_r6_who_goes_over_a_table_sees_any_key_until_it_ends(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    going, over, twice, apart = (p.start(A, n) for n in range(4))
    for event in (going, over, twice, twice):
        p.do(p.machine.table_iterated(event, "t"))
    p.end(over)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(p.start(A, 4), "other", "k", write=True))
    assert torn(p, epoch) == []
    p.do(p.machine.table_touched(None, "t", "k", write=True))
    assert torn(p, epoch) == [(0, "t"), (2, "t")]
    assert p.send(B, apart).epoch == 0


def test_r6_so_does_a_record_of_a_global_table(world: World, pair: tuple[Process, Process]) -> None:
    p, q = pair
    holder, going, other = p.start(A, 0), p.start(A, 1), p.start(A, 2)
    p.do(p.machine.value_held(holder, "g", "k", unrecorded=False))
    p.do(p.machine.table_iterated(going, "g"))
    p.do(p.machine.value_held(other, "g", "another", unrecorded=False))
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.key_received("g", "k", 0))
    assert torn(p, epoch) == []
    p.do(p.machine.key_received("g", "k", epoch))
    assert torn(p, epoch) == [(0, "g"), (1, "g")]


def test_r6_a_batch_is_torn_by_what_its_first_event_holds(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    batch = [Cause("agent", A, 0), Cause("agent", A, 1)]
    p.do(p.machine.batch_started(batch))
    p.do(p.machine.value_held(batch[0], "t", "k", unrecorded=False))
    p.start(A, 2)
    epoch = world.trigger()
    settle(p, q)
    p.do(p.machine.table_touched(p.start(A, 3), "t", "k", write=True))
    assert torn(p, epoch) == [(0, "t"), (1, "t")]


def test_r6_an_event_that_is_over_holds_nothing(world: World, pair: tuple[Process, Process]) -> None:
    """What it did then is forgotten, and what outlives it holds nothing: it has the colour of the process."""
    p, _q = pair
    event = p.start(A, 0)
    p.do(p.machine.value_held(event, "t", "k", unrecorded=True))
    p.do(p.machine.table_iterated(event, "t"))
    p.end(event)
    p.do(p.machine.value_held(event, "t", "k", unrecorded=True))
    p.do(p.machine.table_iterated(event, "t"))
    held = p.machine.colours.held
    assert not held.by_event
    assert held.who_sees(("t", "k")) == []


def test_r6_a_change_while_nothing_can_be_torn_is_no_news(
    world: World, pair: tuple[Process, Process]
) -> None:
    """No cut is open: whoever holds the value, once or twice, goes on, and so does who goes over the table beside."""
    p, _ = pair
    holder, other = p.start(A, 0), p.start(A, 1)
    for _ in range(2):
        p.do(p.machine.value_held(holder, "t", "k", unrecorded=False))
    for event in (holder, other):
        p.do(p.machine.table_iterated(event, "t"))
    p.do(p.machine.value_held(other, "t", "k", unrecorded=True))
    p.do(p.machine.table_touched(other, "t", "k", write=True))
    p.end(other)
    assert p.send(B, holder).epoch == 0
