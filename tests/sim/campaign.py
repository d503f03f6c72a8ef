"""Many seeds, and what the rules had to do in them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from snapkafka.sim import run
from snapkafka.sim.judge import Violation

#: What shows that a rule really had something to do.
RULES: Final[dict[str, tuple[str, ...]]] = {
    "R1": ("Trigger", "retries"),
    "R2": ("heard by marker", "heard by header"),
    "R2 outside": ("hang", "VERIFIED_OPEN"),
    "R3": ("Report",),
    "R4": ("lose-report",),
    "R5": ("white_sends_while_red",),
    "R6": ("torn", "later_looks_over_a_cut"),
    "R7": ("Report",),
    "R8": ("in_flight", "in_flight_of_left"),
    "R9": ("failed: input-moved", "failed: input-unassigned"),
    "R10": ("stopped_apps", "VERIFIED_WITH_REPLAYS"),
    "R11": ("born_red", "Hello"),
    "R12": ("expire", "zombies", "failed: process-lost"),
    "R15": ("silent-ledger", "impatient", "failed: contaminated"),
}
#: Seeds that one task of a worker process runs.
CHUNK: Final = 25


@dataclass(slots=True)
class Report:
    """The result of a campaign."""

    seeds: int = 0
    violations: list[tuple[int, Violation]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def rules(self) -> dict[str, int]:
        """How often each rule had something to do."""
        return {rule: sum(self.counts[name] for name in names) for rule, names in RULES.items()}

    def __str__(self) -> str:
        names = ("captured", "aborted", "in_flight", "crash", "rebalances", "torn", "lose-report")
        wrong = (
            f"VIOLATION {violation.rule}: {violation.what}\n    python -m snapkafka.sim --seed {seed}"
            for seed, violation in self.violations
        )
        return "\n".join(
            (
                f"{self.seeds} seeds: " + ", ".join(f"{self.counts[name]} {name}" for name in names),
                "what the rules had to do: " + ", ".join(f"{rule} {n}" for rule, n in self.rules.items()),
                *(wrong if self.violations else ("no violation",)),
            )
        )


def campaign(first: int, seeds: int, *, jobs: int) -> Report:
    """Run `seeds` seeds from `first` on, in so many processes."""
    report, end = Report(), first + seeds
    with ProcessPoolExecutor(max(1, jobs)) as pool:
        for part in pool.map(_some, (range(at, min(at + CHUNK, end)) for at in range(first, end, CHUNK))):
            report.seeds += part.seeds
            report.violations += part.violations
            report.counts += part.counts
    return report


def _some(seeds: range) -> Report:
    report = Report(seeds=len(seeds))
    for seed in seeds:
        outcome = run(seed)
        report.counts += outcome.counts
        report.violations += [(seed, violation) for violation in outcome.violations]
    return report
