"""A world to explore: its parts, its slow steps and its faults, and the steps that have to be tried in it.

A *lens* (`SmallWorld.slow`) makes a world smaller: kinds of steps that are not in it happen at once. Within the lens
all orders are tried, up to where nothing can happen of itself any more; but for one kind of step. *Fetching a record
that is not red* only moves the record into the queue of its agent: the position of a cut depends on started events,
and a rebalance discards both. So nothing else can prevent or change it, nor does it prevent or change anything else,
and every run without it now has a run with it that ends the same (a persistent set of one). That the outcomes are the
same is a test: `tests/sim/test_explore.py` goes through small worlds without this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from snapkafka.protocol import TopicPartition
from snapkafka.sim import SimStored, WorldPlan

from .choices import Choice, ExploredWorld, Stage, settled

#: In what order things happen that nothing delays.
PROMPT: Final = ("stamp", "append", "ack", "post", "ledger", "reply", "global", "commit")
EVERYTHING: Final = frozenset(PROMPT)
#: Faults by which somebody leaves, or an input moves.
MOVES: Final = frozenset({"abort", "crash", "expel", "fence", "rebalance", "restart", "stop", "expire"})


@dataclass(frozen=True, slots=True)
class SmallWorld:
    """A world to explore.

    `inputs`: external records, present from the start. `faults`: the possible faults, and how often. `slow`: kinds of
    steps that may happen at any time after they became possible ("ledger", or more finely "ledger Trigger", or that of
    one app, "a ledger Trigger"); the others happen at once (so the world is smaller than one in which everything is
    slow: that is its lens). `asks`: the process that triggers snapshots (-1: any). `states`: the number of distinct
    states when this was written.
    """

    plan: WorldPlan
    inputs: tuple[TopicPartition, ...] = ()
    faults: dict[str, int] = field(default_factory=dict)
    slow: frozenset[str] = frozenset()
    asks: int = -1
    states: int = 0
    name: str = ""

    def root(self) -> ExploredWorld:
        """Return the initial world: every process has joined, nothing has happened."""
        world = ExploredWorld(self.plan, Stage())
        settled(world)
        for tp in self.inputs:
            world.broker.append(tp, SimStored(hops=self.plan.hops))
        world.triggers, world.faults = self.plan.snapshots, dict(self.faults)
        return world

    def choices(self, world: ExploredWorld, *, reduced: bool = True) -> list[Choice]:
        """Return the possible next steps that have to be tried; empty if the run is over."""
        moving = not MOVES.isdisjoint(name.split(" ")[0] for name in self.faults)
        # Without moves nobody asks what was committed.
        moves = [choice for choice in world.possible() if choice.kind != "commit" or moving]
        prompt = [c for c in moves if c.kind in PROMPT and not self._is_slow(world, c)]
        if prompt:
            return [min(prompt, key=lambda choice: PROMPT.index(choice.kind))]
        if reduced:
            for choice in moves:
                if choice.kind == "fetch" and not _is_red(world, choice):
                    return [choice]
        if world.triggers and world.may_trigger():
            joined = [p.number for p in world.processes if p.joined and self.asks in (-1, p.number)]
            authors = [-1] if "ledger" in world.plan.hear else joined
            moves += [Choice("trigger", author) for author in authors]
        return [*moves, *world.faulty()] if moves else []

    def _is_slow(self, world: ExploredWorld, choice: Choice) -> bool:
        """Return whether a choice may be late: by its kind, by its object, or by that and its app."""
        what = world.finely(choice)
        app = world.processes_ever[choice.process].app.name if choice.process >= 0 else ""
        return not self.slow.isdisjoint((choice.kind, what, f"{app} {what}"))


def _is_red(world: ExploredWorld, choice: Choice) -> bool:
    """Return whether a record that can be fetched is a marker, or red for its reader."""
    process = world.processes_ever[choice.process]
    record = world.broker.logs[choice.what][process.consumer.fetch[choice.what]]
    return record.marker or (record.process >= 0 and record.epoch > process.machine.colours.epoch)
