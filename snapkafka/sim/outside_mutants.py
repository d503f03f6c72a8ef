"""Rules about processes that are not part of a snapshot, each switched off: see `mutants`."""

from __future__ import annotations

from typing import Final

from snapkafka.protocol import captured

from . import broken, run, world
from .broken import patching
from .mutant_plans import relayed, relays_off
from .mutants import Mutant

__all__ = ["OUTSIDE"]

#: Caught by the causal checker in random worlds; the exhaustive search has one scope only, all apps.
OUTSIDE: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R2 outsider",
        "what was received of a process that is not part of the snapshot is in no verdict",
        patching(run, "outside_senders", broken.sees_nothing),
        relayed,
    ),
    Mutant(
        "R2 beside",
        "whoever had joined counts as red for the snapshot",
        patching(captured.Outsider, "harmless", lambda _: property(lambda self: True)),
        relayed,
    ),
    Mutant(
        "R10 outside",
        "the group of an app out of scope is not asked whether it runs without snapkafka",
        patching(world, "run_without", lambda _: lambda asked: ()),
        relays_off,
    ),
)
