"""Rules about processes that are not part of a snapshot, and about recreated topics, each switched off: see
`rules`."""

from __future__ import annotations

from typing import Final

from snapkafka.protocol import captured_snapshot, facts, sent
from snapkafka.sim import runs
from snapkafka.sim.world import world

from . import broken
from .broken import patching
from .mutant import Mutant
from .plans import relayed, relays_off, renewed

#: Caught by the causal checker in random worlds; the exhaustive search has one scope only, all apps.
OUTSIDE: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R2 outsider",
        "what was received of a process that is not part of the snapshot is in no verdict",
        patching(runs, "outside_senders", broken.sees_nothing),
        relayed,
    ),
    Mutant(
        "R2 beside",
        "whoever had joined counts as red for the snapshot",
        patching(captured_snapshot.Outsider, "harmless", lambda _: property(lambda self: True)),
        relayed,
    ),
    Mutant(
        "R10 outside",
        "the group of an app out of scope is not asked whether it runs without snapkafka",
        patching(world, "run_without", lambda _: lambda asked: ()),
        relays_off,
    ),
)

#: Without these a sound snapshot is accused after a topic was recreated, or doubted for ever.
RENEWED: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R7 recreated",
        "ends of a topic that was recreated stand for ever",
        patching(sent.Sent, "_begin_anew", lambda _: lambda self, epoch: None),
        renewed,
    ),
    Mutant(
        "V5 recreated",
        "causes in a topic that was recreated since, and ends of it, are judged as if it were the same",
        patching(facts.Stated, "old_topics", lambda _: lambda self, inputs: ()),
        renewed,
    ),
    Mutant(
        "R11 latest",
        "topics have the ids that who joined last has found, whenever that was",
        patching(facts, "joined_by", lambda _: lambda state, snapshot: broken.whoever_joined(state)),
        renewed,
    ),
)
