"""The possible next steps of an explored world.

A *lens* (`SmallWorld.slow`) makes a world smaller: kinds of steps that are not in it happen at once. Within the lens
all orders are tried, up to where nothing can happen of itself any more; but for one kind of step. *Fetching a record
that is not red* only moves the record into the queue of its agent: the position of a cut depends on started events,
and a rebalance discards both. So nothing else can prevent or change it, nor does it prevent or change anything else,
and every run without it now has a run with it that ends the same (a persistent set of one). That the outcomes are the
same is a test: `tests/sim/test_explore.py` goes through small worlds without this.
"""

from __future__ import annotations

from typing import Final

from .choices import Choice, ExploredWorld
from .lens import PROMPT, SmallWorld

#: Faults by which somebody leaves, or an input moves.
MOVES: Final = frozenset({"abort", "crash", "expel", "fence", "rebalance", "restart", "stop", "expire"})


def choices(world: ExploredWorld, small: SmallWorld, *, reduced: bool = True) -> list[Choice]:
    """Return the possible next steps that have to be tried; empty if the run is over."""
    moving = bool(MOVES & small.kinds)
    # Without moves nobody asks what was committed.
    moves = [choice for choice in world.possible() if choice.kind != "commit" or moving]
    prompt = [c for c in moves if c.kind in PROMPT and not _slow(world, small, c)]
    if prompt:
        return [min(prompt, key=lambda choice: PROMPT.index(choice.kind))]
    if reduced:
        for choice in moves:
            if choice.kind == "fetch" and not _is_red(world, choice):
                return [choice]
    if world.triggers and not world.may_trigger():
        pass
    elif world.triggers and "ledger" in world.plan.hear:
        moves.append(Choice("trigger"))
    elif world.triggers:
        joined = [p.number for p in world.processes if p.joined]
        moves += [Choice("trigger", n) for n in joined if small.asks in (-1, n)]
    return [*moves, *world.faulty()] if moves else []


def _slow(world: ExploredWorld, small: SmallWorld, choice: Choice) -> bool:
    """Return whether a choice may be late: by its kind, by its object, or by that and its app."""
    what = world.finely(choice)
    app = world.processes_ever[choice.process].app.name if choice.process >= 0 else ""
    return not small.slow.isdisjoint((choice.kind, what, f"{app} {what}"))


def _is_red(world: ExploredWorld, choice: Choice) -> bool:
    """Return whether a record that can be fetched is a marker, or red for its reader."""
    process = world.processes_ever[choice.process]
    record = world.broker.logs[choice.what][process.consumer.fetch[choice.what]]
    return record.marker or (record.process >= 0 and record.epoch > process.machine.colours.epoch)
