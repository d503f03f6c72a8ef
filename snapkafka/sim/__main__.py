"""`python -m snapkafka.sim`: seeds, one seed, stories, mutants, methods compared."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from snapkafka.errors import DependencyMissingError

from .campaign import Report, campaign, progress
from .run import run

WHAT = "Seeds, one seed, stories, mutants, methods compared."
USAGE = """python -m snapkafka.sim --seeds N [--from S] [--jobs J] [--json]   many seeds
       python -m snapkafka.sim --seed N                                   one, with its trace
       python -m snapkafka.sim run FILE.json                              a story from outside
       python -m snapkafka.sim mutate [--seeds N] [--json]                every rule, switched off
       python -m snapkafka.sim explore [--world NAME] [--large] [--json]    all interleavings of small worlds
       python -m snapkafka.sim compare --out DIR [...]                    methods compared on one workload"""


def main(arguments: Sequence[str]) -> int:
    """Run a verb, or seeds.

    Returns:
        The exit status: 0; 1 where something does not hold; 2 for a bad argument; 12 for a verb of the checkout.
    """
    verbs: dict[str, Callable[[list[str]], int]] = {
        "run": _story,
        "mutate": lambda rest: _of_checkout("mutate", "tests.sim.mutants.command", rest),
        "explore": _explore,
        "compare": lambda rest: _of_checkout("compare", "studies.compare.command", rest),
    }
    if arguments and arguments[0] in verbs:
        return verbs[arguments[0]](list(arguments[1:]))
    parser = argparse.ArgumentParser("python -m snapkafka.sim", usage=USAGE, description=WHAT)
    parser.add_argument("--seed", type=int, help="run one seed and print its trace")
    parser.add_argument("--seeds", type=int, default=100, help="how many (100)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    parser.add_argument("--json", action="store_true", help="the result as data")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed)
    report = campaign(
        options.first,
        options.seeds,
        jobs=max(1, options.jobs),
        notify=lambda report: _bar(report, options.seeds),
    )
    progress("")
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        _print_report(report)
    return 1 if report.violations else 0


def _one(seed: int) -> int:
    outcome = run(seed)
    print("\n".join(outcome.trace))
    for violation in outcome.violations:
        print(f"VIOLATION {violation.rule}: {violation.what}")
    print(json.dumps(dict(sorted(outcome.counts.items()))))
    return 1 if outcome.violations else 0


def _bar(report: Report, seeds: int) -> None:
    share = report.seeds / seeds
    counts = report.counts
    progress(
        f"[{'#' * int(share * 30):<30}] {report.seeds} of {seeds} seeds, {counts['captured']} captured, "
        f"{counts['aborted']} aborted, {len(report.violations)} violations"
    )


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


def _story(arguments: list[str]) -> int:
    from .story.play import main as story

    return story(arguments)


def _explore(arguments: list[str]) -> int:
    from .explore.search import main as explore

    return explore(arguments)


def _of_checkout(verb: str, module: str, arguments: list[str]) -> int:
    """Run the `main` of a module that only a checkout has, or print where the verb is found."""
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        print(f"error: `{verb}` is not in the package: run it in a checkout of snapkafka", file=sys.stderr)
        return DependencyMissingError.exit_status
    return int(found.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
