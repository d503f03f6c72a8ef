"""R5 and R6: the colour of effects, and events that are torn."""

from __future__ import annotations

import pytest

from snapkafka.protocol import Effect, RecordMet, SendOutcome, Status

from .steps import Play
from .world import A, B, Process, World, settle

#: What the events of a process do before and after its cuts (`Play`), and which of them are torn by what, snapshot by
#: snapshot.
TEARING = {
    # -- what red wrote or read
    "a white event reads what red wrote": (
        "start 0; cut; start 1; write 1 t k; read 0 t other; white 0; read 0 t k; red 0 => 0:t"
    ),
    "it overwrites what red wrote": "start 0; cut; start 1; write 1 t k; write 0 t k => 0:t",
    "it overwrites what red read; two reads commute": (
        "start 0; cut; start 1; read 1 t k; read 0 t k; white 0; write 0 t k => 0:t"
    ),
    "a torn event writes in red": ("start 0 1; cut; start 2; read 2 t k; write 0 t k; read 1 t k => 0:t 1:t"),
    "red is what is done outside of any event": "start 0; cut; write - t k; read 0 t k => 0:t",
    "and what outlives its event": "start 0 1; cut; end 1; write 1 t k; white 0; read 0 t k => 0:t",
    "what was written before the cut is white": (
        "start 0; got g k 0; write 0 t k; calm; cut; read 0 t k; read 0 g k =>"
    ),
    "the middle of three colours is red for the first": (
        "start 0; cut; start 1; cut; write 1 t k; read 0 t k => 0:t |"
    ),
    "what others wrote into a global table has their colour": (
        "start 0; cut; got g white 0; read 0 g white; write 0 g white; white 0; got g k 1; "
        "got g k 0; write - t timer; read 0 g k => 0:g"
    ),
    "a window expires in the colour of the process": (
        "start 0 1; cut; write - t k; read 1 t l; white 1; read 0 t k => 0:t"
    ),
    # -- replies
    "a red reply": "start 0; cut; reply 0 1 => 0:",
    "one without a header, by all cuts so far": "start 0; cut; start 1; cut; reply 1 bare => | 1:",
    "for the cuts that it crossed": "start 0; cut; start 1; cut; start 2; cut; start 3; reply 1 2 => | 1: |",
    "and for those only": "start 0; cut; start 1; cut; reply 0 1; reply 1 1 => 0: |",
    "a reply of its own colour, and to who is over": "start 0; reply 0 0; reply 77 0; cut; reply 0 0 =>",
    "who starts or ends twice counts once": "start 0; start 0; end 0; end 0; cut =>",
    "once the white events are done": "start 0; send 0; cut; end 0; calm =>",
    # -- batches
    "a batch has one colour, but for what has ended": (
        "batch 0 1; cut; start 2; write 2 t k; end 1; read 0 t k => 0:t"
    ),
    "all of it is torn with one of it": "batch 0 1; cut; reply 1 1 => 0: 1:",
    "by the table that tore it": (
        "batch 0 1; start 2; cut; start 3; write 3 t k; read 0 t k; white 2 => 0:t 1:t"
    ),
    "a later batch tears what ran before it": "batch; start 0; cut; batch 0 1; red 0 => 0:",
    "by the latest colour in it, wherever that stands": (
        "start 0; cut; start 1; batch 1 0; red 1; red 0 => 0:"
    ),
    "what was in one and runs again by itself": (
        "start 0; batch 1 2; end 1; end 0; start 1; cut; reply 1 1; white 2 => 1:"
    ),
    # -- worked off by another event
    "by a red one": "start 0 1 2; worked 0 1; end 0; cut; start 3; worked 1 3; worked 2 - => 1: 2:",
    "by a white one": "start 0 1; cut; worked 0 1; white 0 =>",
    "by what outlives its event": "start 0 1; cut; end 1; worked 0 1; red 0 => 0:",
    # -- whole tables
    "a table read as a whole takes in any key": (
        "start 0; cut; start 1; all 1 t; write 1 other k; all 0 t; white 0; all - other; "
        "all 0 other => 0:other"
    ),
    "what red has read as a whole may not be overwritten": (
        "start 0; cut; start 1; all 1 t; read 0 t k; white 0; write 0 t k => 0:t"
    ),
    "nor what outlives its event has read": "start 0 1; cut; end 1; all 1 t; write 0 t k; red 0 => 0:t",
    "nor what a torn one has": (
        "start 0 1; cut; start 2; write 2 t k; all 0 t; write 1 t another; red 1 => 0:t 1:t"
    ),
    "nor what white has read as well": "start 0 1; cut; start 2; all 2 t; all 0 t; write 1 t k => 1:t",
    "what white alone has read may be": "start 0 1; cut; all 0 t; write 1 t k =>",
    "a rebalance changes any key": (
        "start 0 1 2 3; rewritten t; hold 0 t k; hold 3 u k; iterate 1 t; cut; rewritten t; white 2; "
        "read 3 u l; white 3; read 2 t new => 0:t 1:t 2:t"
    ),
    "who counts a table that it changed": "start 0 1; cut; rewritten t; all 0 t => 0:t",
    # -- values that are held while red changes them
    "who holds a value sees what red writes": (
        "start 0 1 2; hold 0 t k; hold 1 t another; hold 2 t k; end 2; cut; start 3; write 3 t k; "
        "red 0; white 1 => 0:t"
    ),
    "also of a list in memory": (
        "start 0 1 2; change 0 t k; change 1 t another; change 2 t k; end 2; cut; start 3; "
        "write 3 t k; red 0; white 1 => 0:t"
    ),
    "which may be changed from the look on": (
        "start 0 1 2; change 0 t k; cut; start 3; change 3 t k; white 1; change 1 t k => 0:t 1:t"
    ),
    "nobody overwrites what a torn one holds": "start 0 1; hold 0 t k; cut; reply 0 1; write 1 t k => 0: 1:t",
    "a set of which each change is recorded may not": (
        "start 0 1; hold 0 t k; cut; start 2; hold 2 t k; hold 1 t k =>"
    ),
    "who is torn may change what it holds, and nobody overwrites what it reads": (
        "start 0 1 2 3; change 0 t k; change 0 t l; change 1 t l; change 1 t m; change 2 t m; "
        "change 3 t n; iterate 0 u; start 4; cut; reply 0 1; white 4; write 4 u k; "
        "white 3 => 0: 1:t 2:t 4:u"
    ),
    "who goes over a table sees any key until it ends": (
        "start 0 1 2 3; iterate 0 t; iterate 1 t; iterate 2 t; iterate 2 t; end 1; cut; start 4; "
        "write 4 other k; white 0; write - t k; white 3 => 0:t 2:t"
    ),
    "so does a record of a global table": (
        "start 0 1 2; hold 0 g k; iterate 1 g; hold 2 g another; cut; got g k 0; white 0; "
        "got g k 1 => 0:g 1:g"
    ),
    "a batch is torn by what its first event holds": (
        "batch 0 1; hold 0 t k; start 2; cut; start 3; write 3 t k => 0:t 1:t"
    ),
    "an event that is over holds nothing": (
        "start 0 1; change 0 t k; iterate 0 t; end 0; change 0 t k; iterate 0 t; cut; write - t k =>"
    ),
    "a change while nothing can be torn is no news": (
        "start 0 1; hold 0 t k; hold 0 t k; iterate 0 t; iterate 1 t; change 1 t k; write 1 t k; "
        "end 1; cut; white 0 =>"
    ),
}


@pytest.mark.parametrize("name", TEARING)
def test_r6_what_is_torn_and_what_is_not(world: World, p: Process, q: Process, name: str) -> None:
    steps, _, expected = TEARING[name].partition("=>")
    play = Play(world, p, q)
    play.run(steps)
    play.finish()
    found = []
    for epoch in play.epochs[1:]:
        assert world.snapshot(epoch).status is Status.CAPTURED
        torn = (event for cut in world.fold.captured(epoch).inputs for event in cut.torn)
        found.append(sorted(f"{event.offset}:{event.table}" for event in torn))
    assert found == [snapshot.split() for snapshot in expected.split("|")]


@pytest.mark.parametrize("twice", [False, True])
def test_r6_one_cut_may_serve_snapshots_of_which_some_are_torn(world: World, *, twice: bool) -> None:
    """It serves all epochs in (e, E]; a reply of a colour between them is red for some, white for the others. Another
    one of a later colour tears the event once more."""
    p = Process(world, "p", (A,), hear=frozenset({"headers"}))
    white = p.start(A, 0)
    first, second = world.trigger("1"), world.trigger("2")
    p.catch_up()
    p.feed(RecordMet(epoch=second))
    p.do(p.machine.torn(p.machine.colours.tear(white, first)))
    if twice:
        p.do(p.machine.torn(p.machine.colours.tear(white, second)))
    p.end(white)
    settle(p)
    torn = {
        e: [(t.was, t.met) for cut in world.fold.captured(e).inputs for t in cut.torn]
        for e in (first, second)
    }
    assert torn == {first: [(0, first)], second: [(first, second)] if twice else []}


def test_r5_a_send_at_once_is_the_three_steps_in_one(world: World, p: Process) -> None:
    """R5, R7: the same colour, cause, seq and counts, whether its event runs, is over, or is none; and nothing is left
    of one that is undone."""
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
        p.do(machine.settled(steps, B, seq, SendOutcome.ACKED, offset=seq))
        assert _counts(steps) == undone
        colours.append(steps.epoch)
    assert colours == [0, epoch, epoch, epoch]


def _counts(effect: Effect) -> tuple[int, int]:
    return effect.tally.unappended, effect.tally.unacked
