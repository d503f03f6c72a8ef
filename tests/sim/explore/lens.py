"""A world to explore: its parts, its slow steps, and its faults.

All other steps happen at once, which keeps it small: that is its lens. The worlds themselves are in `explore_small`
and `explore_large`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from snapkafka.protocol import TopicPartition
from snapkafka.sim import AgentPlan, App, Op, SimStored, WorldPlan

from .choices import ExploredWorld, Stage, settled

A, B, A1 = TopicPartition("A", 0), TopicPartition("B", 0), TopicPartition("A", 1)
#: In what order things happen that nothing delays.
PROMPT: Final = ("stamp", "append", "ack", "post", "ledger", "reply", "global", "commit")
EVERYTHING: Final = frozenset(PROMPT)
#: News of a snapshot come late.
NEWS: Final = frozenset({"ledger Trigger"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallWorld:
    """A world to explore.

    `slow`: kinds of steps that may happen at any time after they became possible ("ledger", or more finely "ledger
    Trigger", or that of one app, "a ledger Trigger"); the others happen at once (so the world is smaller than one in
    which everything is slow: that is its lens). `faults`: the possible faults, and how often. `inputs`: external
    records, present from the start. `asks`: the process that triggers snapshots (-1: any). `states`: the number of
    distinct states when this was written.
    """

    name: str
    what: str
    plan: WorldPlan
    inputs: tuple[TopicPartition, ...]
    faults: dict[str, int] = field(default_factory=dict)
    slow: frozenset[str] = EVERYTHING
    asks: int = -1
    states: int = 0

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of faults."""
        return frozenset(name.split(" ")[0] for name in self.faults)

    def root(self) -> ExploredWorld:
        """Return the initial world: every process has joined, nothing has happened."""
        world = ExploredWorld(self.plan, Stage())
        settled(world)
        for tp in self.inputs:
            world.broker.append(tp, SimStored(hops=self.plan.hops))
        world.triggers, world.faults = self.plan.snapshots, dict(self.faults)
        return world


def app(
    name: str, topic: str, *programs: tuple[Op, ...], workers: int = 1, at_once: int = 1, partitions: int = 1
) -> App:
    """Create an app with one agent, which runs the programs in turn."""
    agents = (AgentPlan(f"{name}.{topic}", topic, at_once, programs),) if programs else ()
    return App(name, agents, partitions, workers)


def plan(
    *apps: App,
    snapshots: int = 1,
    markers: str = "AB",
    hear: str = "",
    hops: int = 1,
    table: bool = False,
    exactly_once: bool = False,
) -> WorldPlan:
    heard = frozenset(hear.split()) if hear else frozenset({"ledger", "markers", "headers"})
    return WorldPlan(
        apps=apps,
        externals=("A", "B"),
        marker_topics=tuple(markers),
        hear=heard,
        snapshots=snapshots,
        hops=hops,
        global_table=table,
        exactly_once=exactly_once,
    )


SEND: Final[tuple[Op, ...]] = (("send", "B"),)
WRITE: Final[tuple[Op, ...]] = (("write", "x"),)
LOOP: Final[tuple[Op, ...]] = (("send", "A"),)
