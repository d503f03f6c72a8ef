"""Mutants in small worlds: for every rule one in which its removal shows.

A mutant is sought depth first, in an order drawn by a seed, and from the root again after `STATES_MAX` states: a
violation shows in many runs, and any of them will do. Each found run is one of the exhaustive search.
"""

from __future__ import annotations

from typing import Final

from tests.sim.explore.lens import SmallWorld
from tests.sim.explore.search import explore
from tests.sim.explore.small import by_name

from .mutant import Mutant
from .search import CAUSAL

#: Several runs to the end.
STATES_MAX: Final = 150
#: As many orders are tried.
SEEDS_MAX: Final = 300
#: Name of a mutant -> the world where it shows, and the order in which it was found soonest.
CAUGHT_IN: Final[dict[str, tuple[str, int]]] = {
    "R2 agent": ("cut", 6),
    "R2 global table": ("global", 2),
    "R2 reply": ("reply", 2),
    "R3 order": ("disorder", 0),
    "R5 colour": ("closing", 0),
    "R6 torn": ("torn", 0),
    "R6 overwritten": ("torn", 0),
    "R6 held": ("held", 0),
    "R6 changed": ("held", 0),
    "R6 iterated": ("iterated", 0),
    "R7 event": ("closing", 0),
    "R7 ack": ("closing", 0),
    "R7 transaction": ("transactions", 0),
    "R7 aborted": ("aborted", 0),
    "R7 failed": ("fenced", 5),
    "R7 report": ("cut", 0),
    "R8 end": ("cut", 0),
    "R8 start": ("cut", 0),
    "R8 late start": ("cut", 0),
    "R8 left": ("left", 5),
    "R9 stale": ("expelled", 6),
    "R9 moved": ("red-input", 5),
    "R9 unassigned": ("unassigned", 3),
    "R10 undone": ("went-back", 3),
    "R11 born": ("born", 0),
    "R12 back": ("zombie", 169),
    "V5 replay": ("replay", 4),
    "hear nothing": ("cut", 6),
    "hear markers": ("cut", 6),
}


def catch(mutant: Mutant) -> tuple[SmallWorld, tuple[str, ...]] | None:
    """Find a small world in which the causal checker catches a mutant, and the choices that lead there."""
    name, first = CAUGHT_IN.get(mutant.name, ("", 0))
    small = by_name(name)
    if small is None:
        return None
    for seed in range(first, first + SEEDS_MAX):
        with mutant.patch():
            found = explore(small, states_max=STATES_MAX, seed=seed, first=True)
        for broken in found.violations:
            if broken.violation.rule in CAUSAL:
                return small, broken.choices
    return None
