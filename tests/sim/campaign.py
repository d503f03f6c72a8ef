"""`python -m tests.sim campaign`: many seeds."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from snapkafka.sim import run
from snapkafka.sim.judge import Violation

#: What shows that a rule really had something to do.
RULES: Final[dict[str, tuple[str, ...]]] = {
    "R1": ("Trigger", "twin_triggers", "retries"),
    "R2": ("heard by marker", "heard by header"),
    "R3": ("Report",),
    "R4": ("lost_reports",),
    "R5": ("white_sends_while_red",),
    "R6": ("torn", "later_looks_over_a_cut"),
    "R7": ("Report",),
    "R8": ("in_flight", "in_flight_of_left"),
    "R9": ("failed: input-moved", "failed: input-unassigned"),
    "R2 outside": ("hung", "VERIFIED_OPEN"),
    "R10": ("stopped_apps", "VERIFIED_WITH_REPLAYS"),
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


def campaign(first: int, seeds: int, *, jobs: int = 1) -> Report:
    """Run `seeds` seeds from `first` on.

    Args:
        jobs: worker processes.
    """
    report = Report()
    chunks = [range(at, min(at + CHUNK, first + seeds)) for at in range(first, first + seeds, CHUNK)]
    for part in _each(chunks, jobs):
        report.seeds += part.seeds
        report.violations += part.violations
        report.counts += part.counts
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


# -- the command -------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run `campaign`; return the exit status: 0, 1 if something does not hold."""
    parser = argparse.ArgumentParser("python -m tests.sim campaign", description="Many seeds.")
    parser.add_argument("--seeds", type=int, default=100, help="how many (100)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    parser.add_argument("--json", action="store_true", help="the result as data")
    options = parser.parse_args(arguments)
    report = campaign(options.first, options.seeds, jobs=max(1, options.jobs))
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        _print_report(report)
    return 1 if report.violations else 0


def _print_report(report: Report) -> None:
    data = report.as_json()
    print(
        "{seeds} seeds: {captured} snapshots captured, {aborted} aborted, {in_flight} messages in flight, {crashes} "
        "crashes, {rebalances} rebalances, {torn} torn events, {lost_reports} lost reports".format(**data)
    )
    print("what the rules had to do: " + ", ".join(f"{rule} {n}" for rule, n in data["rules"].items()))  # type: ignore[attr-defined]
    for seed, violation in report.violations:
        print(f"VIOLATION {violation.rule}: {violation.what}\n    python -m snapkafka.sim --seed {seed}")
    if not report.violations:
        print("no violation")
