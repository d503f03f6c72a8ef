"""The search for a seed that catches a mutant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from snapkafka.sim import make_plan, run
from snapkafka.sim.judge import Violation

from .alignment import ALIGNED, ALIGNED_LIVENESS, ALIGNED_VERDICTS
from .lost import LOST, LOST_LIVENESS, LOST_VERDICTS
from .mutant import EXPLORED, Mutant
from .outside import OUTSIDE, RENEWED
from .rules import LIVENESS, MUTANTS, STRIPPED, VERDICTS, WITHOUT

#: All that random worlds are tried with.
EVERY: Final = (
    *MUTANTS,
    *WITHOUT,
    *OUTSIDE,
    *STRIPPED,
    *LIVENESS,
    *VERDICTS,
    *RENEWED,
    *LOST,
    *LOST_LIVENESS,
    *LOST_VERDICTS,
    *ALIGNED,
    *ALIGNED_LIVENESS,
    *ALIGNED_VERDICTS,
)

#: What the causal checker says; anything else (an assertion, a time-out) does not count as having caught a mutant.
CAUSAL: Final = frozenset({"whole", "consistent", "channels"})

#: What is wrong with a verdict: a sound snapshot is accused, or doubted for what its event undid, or what a process
#: reports as lost is not in it.
OF_VERDICTS: Final = frozenset({"accused", "doubted", "lost", "unlisted", "aligned"})


@dataclass(frozen=True, slots=True)
class Caught:
    """A mutant, the seed that caught it (None: none did), and what the checker reported."""

    mutant: Mutant
    seed: int | None
    violation: Violation | None = None


def mutate(
    seeds: int,
    *,
    mutants: Iterable[Mutant] = EVERY,
    notify: Callable[[Caught], None] = lambda caught: None,
) -> list[Caught]:
    """Find a seed that catches each mutant of random worlds: first the known one, then those from 0 on."""
    found = []
    for mutant in mutants:
        if mutant.name in EXPLORED:
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
    wanted = (
        CAUSAL | {"liveness"}
        if mutant in LIVENESS + LOST_LIVENESS + ALIGNED_LIVENESS
        else OF_VERDICTS
        if mutant in VERDICTS + RENEWED + LOST_VERDICTS + ALIGNED_VERDICTS
        else CAUSAL
    )
    try:
        with mutant.patch():
            outcome = run(seed, plan)
    except (AssertionError, KeyError):
        return None  # it broke, and that is not what counts
    reported = [v for v in (*outcome.violations, *outcome.condemned) if v.rule in wanted]
    if not reported:
        return None
    sober = run(seed, mutant.whole(plan))
    return None if sober.violations or sober.condemned else reported[0]
