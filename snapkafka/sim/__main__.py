"""`python -m snapkafka.sim`: one seed, scenarios of your own, methods compared."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module

from snapkafka.errors import DependencyMissingError

from .runs import run
from .story.play import main as story

WHAT = "One seed, scenarios of your own, methods compared."
USAGE = """python -m snapkafka.sim --seed N                one seed, with its trace
       python -m snapkafka.sim run FILE.json           a scenario of your own
       python -m snapkafka.sim compare --out DIR [...] methods compared on one workload"""


def main(arguments: Sequence[str]) -> int:
    """Run a verb, or a seed.

    Returns:
        The exit status: 0; 1 where something does not hold; 2 for a bad argument; 12 for a verb of the checkout.
    """
    if arguments and arguments[0] == "run":
        return story(list(arguments[1:]))
    if arguments and arguments[0] == "compare":
        return _compare(list(arguments[1:]))
    parser = argparse.ArgumentParser("python -m snapkafka.sim", usage=USAGE, description=WHAT)
    parser.add_argument("--seed", type=int, required=True, help="run one seed and print its trace")
    outcome = run(parser.parse_args(arguments).seed)
    print("\n".join(outcome.trace))
    for violation in outcome.violations:
        print(f"VIOLATION {violation.rule}: {violation.what}")
    print(json.dumps(dict(sorted(outcome.counts.items()))))
    return 1 if outcome.violations else 0


def _compare(arguments: list[str]) -> int:
    """Run the study, which only a checkout has."""
    try:
        found = import_module("studies.compare.command")
    except ModuleNotFoundError as error:
        if error.name is None or not "studies.compare.command.".startswith(f"{error.name}."):
            raise
        print("error: `compare` is not in the package: run it in a checkout of snapkafka", file=sys.stderr)
        return DependencyMissingError.exit_status
    return int(found.main(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
