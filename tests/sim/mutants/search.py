"""`python -m tests.sim mutate`: every rule, switched off, and the seed or small world that shows it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from snapkafka.sim import make_plan, run
from snapkafka.sim.judge import Violation
from tests.sim.explore.lens import SmallWorld
from tests.sim.explore.search import explore
from tests.sim.explore.small import by_name

from .table import CAUSAL, MUTANTS, Mutant

#: In a small world a mutant is sought depth first, in an order drawn by a seed, and from the root again after so many
#: states: a violation shows in many runs, and any of them will do. As many orders are tried.
STATES_MAX: Final = 150
ORDERS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Caught:
    """A mutant, the seed that caught it (None: none did), and what the checker reported."""

    mutant: Mutant
    seed: int | None
    violation: Violation | None = None


def mutate(
    seeds: int,
    *,
    mutants: Iterable[Mutant] = MUTANTS,
    notify: Callable[[Caught], None] = lambda caught: None,
) -> list[Caught]:
    """Find a seed that catches each mutant of random worlds: first the known one, then those from 0 on."""
    found = []
    for mutant in mutants:
        if mutant.seed is None:
            continue
        caught = Caught(mutant, None)
        for seed in (mutant.seed, *range(seeds)):
            violation = caught_by(mutant, seed)
            if violation is not None:
                caught = Caught(mutant, seed, violation)
                break
        notify(caught)
        found.append(caught)
    return found


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
    sober = run(seed, mutant.whole(plan))
    return None if sober.violations or sober.condemned else reported[0]


def catch(mutant: Mutant) -> tuple[SmallWorld, tuple[str, ...]] | None:
    """Find a run in its small world in which the causal checker catches a mutant, unless it is known: the choices that
    lead there."""
    small = by_name(mutant.small)
    assert small is not None
    if mutant.path:
        return small, tuple(mutant.path.split("; "))
    for order in range(ORDERS_MAX):
        with mutant.patch():
            found = explore(small, states_max=STATES_MAX, seed=order, first=True)
        for broken in found.violations:
            if broken.violation.rule in CAUSAL:
                return small, broken.choices
    return None


def main(arguments: list[str]) -> int:
    """Search a seed for each mutant; return 0 if each has one, else 1."""
    parser = argparse.ArgumentParser("python -m tests.sim mutate")
    parser.add_argument("--seeds", type=int, default=10_000, help="at most so many for each (10,000)")
    parser.add_argument("--json", action="store_true", help="the result as data")
    options = parser.parse_args(arguments)

    def notify(caught: Caught) -> None:
        if not options.json:
            how = (
                f"caught by seed {caught.seed}: {caught.violation}"
                if caught.seed is not None
                else "NOT CAUGHT"
            )
            print(f"{caught.mutant.name:18} {caught.mutant.what}: {how}", flush=True)

    found = mutate(options.seeds, notify=notify)
    if options.json:
        data = {
            c.mutant.name: {"caught": c.seed is not None, "seed": c.seed, "what": c.mutant.what}
            for c in found
        }
        print(json.dumps(data, indent=1))
    return 0 if all(caught.seed is not None for caught in found) else 1
