"""`python -m snapkafka.sim`: one seed, and scenarios of your own."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .runs import run
from .story.play import main as story

USAGE = """python -m snapkafka.sim --seed N                one seed, with its trace
       python -m snapkafka.sim run FILE.json           a scenario of your own"""


def main(arguments: Sequence[str]) -> int:
    """Run a seed, or a scenario; return 0, 1 where something does not hold, 2 for a bad argument."""
    if arguments and arguments[0] == "run":
        return story(list(arguments[1:]))
    parser = argparse.ArgumentParser("python -m snapkafka.sim", usage=USAGE)
    parser.add_argument("--seed", type=int, required=True, help="run one seed and print its trace")
    outcome = run(parser.parse_args(arguments).seed)
    print("\n".join(outcome.trace))
    for violation in outcome.violations:
        print(f"VIOLATION {violation.rule}: {violation.what}")
    print(json.dumps(dict(sorted(outcome.counts.items()))))
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
