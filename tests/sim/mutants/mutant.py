"""A mutant, and the seed that catches each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from snapkafka.sim import WorldPlan

from .broken import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule: the defect, its patch, and the plan that reveals it sooner (None: any)."""

    name: str
    what: str
    patch: Patch
    plan: Callable[[WorldPlan], WorldPlan] = lambda plan: plan
    whole: Callable[[WorldPlan], WorldPlan] = lambda plan: (
        plan
    )  # what makes the plan whole again, where it is the plan that breaks

    @property
    def seed(self) -> int:
        """A known seed that catches it."""
        return SEEDS.get(self.name, 0)

    @property
    def rule(self) -> str:
        return self.name.split(" ")[0]


#: Too rare for random worlds (no seed of those tried): a process that is wrongly taken for dead is mostly still a
#: member of its group, and a snapshot whose inputs move mostly fails by name. The exhaustive search catches them.
EXPLORED: Final = frozenset({"R9 stale", "R9 unassigned", "R10 undone", "R11 born", "R12 back", "V5 replay"})

#: A seed that is known to catch each of the others. `mutate` tries it first, then others.
SEEDS: Final = {
    "R2 agent": 15,
    "R2 global table": 29,
    "R2 reply": 7,
    "R2 outsider": 77,
    "R2 beside": 77,
    "R3 order": 0,
    "R3 skipped": 0,
    "R5 colour": 6,
    "R6 torn": 0,
    "R6 overwritten": 15,
    "R6 held": 3,
    "R6 changed": 33,
    "R6 iterated": 2,
    "R7 event": 7,
    "R7 ack": 7,
    "R7 recreated": 4,
    "V5 recreated": 0,
    "R7 transaction": 3,
    "R7 failed": 2,
    "R7 aborted": 9,
    "R7 report": 5,
    "R8 end": 6,
    "R8 start": 0,
    "R8 late start": 6,
    "R8 left": 13,
    "R8 asked": 49,
    "R9 moved": 0,
    "R10 seen": 163,
    "R10 down": 1,
    "R10 wakes": 16,
    "R10 uncounted": 32,
    "R10 outside": 42,
    "R11 latest": 0,
    "R11 numbers": 3,
    "R11 again": 8,
    "R11 noticed": 2,
    "R11 hidden": 12,
    "R12 dead": 99,
    "R15 bare": 1,
    "R15 bare in flight": 1,
    "R6 expired": 27,
    "V4 unstamped": 16,
    "hear nothing": 64,
    "hear markers": 7,
    "V1 zombie": 588,
    "V1 copy": 4,
    "V1 landed": 5,
    "V1 many": 8,
    "V1 lost": 20,
    "V1 undone": 3,
    "V5 twice": 0,
    "R16 hold": 13,
    "R16 ends": 2,
    "R16 senders": 4,
    "R16 together": 55,
    "R16 marker": 0,
    "R16 let go": 2,
    "R16 in flight": 1,
}
