"""Many seeds, and the mutants: what `python -m snapkafka.sim` does without further words."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from snapkafka.checks.causal import Violation

from .lost_mutants import LOST, LOST_LIVENESS, LOST_VERDICTS
from .mutants import EXPLORED, LIVENESS, MUTANTS, STRIPPED, VERDICTS, WITHOUT, Mutant
from .outside_mutants import OUTSIDE, RENEWED
from .plan import make_plan
from .run import run

__all__ = ["CAUSAL", "RULES", "Caught", "Report", "campaign", "caught_by", "mutate"]

#: What the causal checker says; anything else (an assertion, a time-out) does not count as having caught a mutant.
CAUSAL: Final = frozenset({"whole", "consistent", "channels"})

#: All that random worlds are tried with.
EVERY: Final = (
    MUTANTS
    + WITHOUT
    + OUTSIDE
    + STRIPPED
    + LIVENESS
    + VERDICTS
    + RENEWED
    + LOST
    + LOST_LIVENESS
    + LOST_VERDICTS
)

#: What is wrong with a verdict: a sound snapshot is accused, or doubted for what its event undid, or what a process
#: reports as lost is not in it.
OF_VERDICTS: Final = frozenset({"accused", "doubted", "lost", "unlisted"})

#: What shows that a rule really had something to do.
RULES: Final[dict[str, tuple[str, ...]]] = {
    "R1": ("Trigger", "twin_triggers", "retries"),
    "R2": ("heard by marker", "heard by header"),
    "R3": ("CutReport",),
    "R4": ("lost_reports",),
    "R5": ("white_sends_while_red",),
    "R6": ("torn", "later_looks_over_a_cut"),
    "R7": ("Closed",),
    "R8": ("in_flight", "in_flight_of_left"),
    "R9": ("heard by assigned", "failed: input-moved"),
    "R2 outside": ("hung", "VERIFIED_OPEN"),
    "R10": ("supplements", "stopped_apps", "VERIFIED_WITH_REPLAYS"),
    "R11": ("born_red", "Hello"),
    "R12": ("expired", "zombies", "failed: process-lost"),
    "R15": ("absences", "failed: contaminated"),
}
#: Seeds that one task of a worker process runs.
CHUNK: Final = 25


@dataclass(slots=True)
class Report:
    """Hold what a campaign showed."""

    seeds: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        names = ("captured", "aborted", "crashes", "rebalances", "in_flight", "torn", "lost_reports")
        return {
            "seeds": self.seeds,
            "violations": [{"seed": seed, "rule": v.rule, "what": v.what} for seed, v in self.violations],
            **{name: self.counts[name] for name in names},
            "rules": {rule: sum(self.counts[name] for name in counted) for rule, counted in RULES.items()},
            "counts": dict(sorted(self.counts.items())),
        }


def campaign(
    first: int, seeds: int, *, jobs: int = 1, tell: Callable[[Report], None] = lambda report: None
) -> Report:
    """Run `seeds` seeds from `first` on.

    Args:
        jobs: worker processes.
        tell: is called with the progress.
    """
    report = Report()
    chunks = [range(at, min(at + CHUNK, first + seeds)) for at in range(first, first + seeds, CHUNK)]
    for part in _each(chunks, jobs):
        report.seeds += part.seeds
        report.violations += part.violations
        report.counts += part.counts
        tell(report)
    return report


def _each(chunks: Iterable[range], jobs: int) -> Iterator[Report]:
    if jobs == 1:
        yield from map(_some, chunks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_some, chunks)


def _some(seeds: range) -> Report:
    report = Report(seeds=len(seeds))
    for seed in seeds:
        outcome = run(seed)
        report.counts += outcome.counts
        report.violations += [(seed, violation) for violation in outcome.violations]
    return report


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
    tell: Callable[[Caught], None] = lambda caught: None,
) -> list[Caught]:
    """Look for a seed that catches each mutant of random worlds: the one that did before, then those from 0 on."""
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
        tell(caught)
        found.append(caught)
    return found


def caught_by(mutant: Mutant, seed: int) -> Violation | None:
    """Return what the checker states about a mutant in one run; nothing, if it reports it without the mutant too."""
    plan = mutant.plan(replace(make_plan(seed), retries=0))
    wanted = (
        CAUSAL | {"liveness"}
        if mutant in LIVENESS + LOST_LIVENESS
        else OF_VERDICTS
        if mutant in VERDICTS + RENEWED + LOST_VERDICTS
        else CAUSAL
    )
    try:
        with mutant.patch():
            outcome = run(seed, plan)
    except (AssertionError, KeyError):
        return None  # it broke, and that is not what counts
    told = [v for v in (*outcome.violations, *outcome.condemned) if v.rule in wanted]
    if not told:
        return None
    sober = run(seed, mutant.whole(plan))
    return None if sober.violations or sober.condemned else told[0]


def progress(text: str) -> None:
    """A line that is written over by the next one, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
