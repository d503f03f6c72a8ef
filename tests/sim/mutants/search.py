"""The seed that catches a mutant, and the run of its small world."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapkafka.sim import make_plan, run
from snapkafka.sim.judge import Violation
from tests.sim.explore.search import explore
from tests.sim.explore.small import WORLDS

from .table import CAUSAL, Mutant

#: So many orders of a small world are tried.
ORDERS_MAX: Final = 300


def first_caught(mutant: Mutant, seeds: int) -> tuple[int, Violation] | None:
    """Return the first seed that catches a mutant, and how: the known one, or one from 0 on; None: there is none."""
    assert mutant.seed is not None
    tried = ((seed, caught_by(mutant, seed)) for seed in (mutant.seed, *range(seeds)))
    return next(((seed, violation) for seed, violation in tried if violation is not None), None)


def caught_by(mutant: Mutant, seed: int) -> Violation | None:
    """Return a violation in one run with a mutant that the run without it does not have; None: there is none."""
    plan = mutant.plan(replace(make_plan(seed), retries=0))
    try:
        with mutant.patch():
            outcome = run(seed, plan)
    except (AssertionError, KeyError):
        return None  # it broke, and that is not what counts
    reported = [v for v in (*outcome.violations, *outcome.condemned) if v.rule in mutant.by]
    if not reported:
        return None
    sober = run(seed, plan)
    return None if sober.violations or sober.condemned else reported[0]


def catch(mutant: Mutant) -> tuple[str, ...] | None:
    """Find a run in its small world in which the causal checker catches a mutant, unless it is known: the choices that
    lead there."""
    if mutant.path:
        return tuple(mutant.path.split("; "))
    for order in range(ORDERS_MAX):
        with mutant.patch():
            found = explore(WORLDS[mutant.small], hunt=order)
        if chosen := next((broken.choices for broken in found.violations if broken.rule in CAUSAL), ()):
            return chosen
    return None
