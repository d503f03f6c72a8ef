"""Many seeds: `python -m snapkafka.sim` without a verb."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from snapkafka.sim.judge import Violation

from .run import run

#: What shows that a rule really had something to do.
RULES: Final[dict[str, tuple[str, ...]]] = {
    "R1": ("Trigger", "twin_triggers", "retries"),
    "R2": ("heard by marker", "heard by header"),
    "R3": ("CutReport", "combined"),
    "R4": ("lost_reports", "combined"),
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
    """The result of a campaign."""

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
    first: int, seeds: int, *, jobs: int = 1, notify: Callable[[Report], None] = lambda report: None
) -> Report:
    """Run `seeds` seeds from `first` on.

    Args:
        jobs: worker processes.
        notify: called with the progress.
    """
    report = Report()
    chunks = [range(at, min(at + CHUNK, first + seeds)) for at in range(first, first + seeds, CHUNK)]
    for part in _each(chunks, jobs):
        report.seeds += part.seeds
        report.violations += part.violations
        report.counts += part.counts
        notify(report)
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


def progress(text: str) -> None:
    """Print a line that the next one overwrites, on a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
