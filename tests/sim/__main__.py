"""`python -m tests.sim`: many seeds, every rule switched off, all interleavings of small worlds."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .campaign import main as campaign
from .explore.search import main as explore
from .mutants.search import main as mutate

VERBS = {"campaign": campaign, "mutate": mutate, "explore": explore}
USAGE = """usage: python -m tests.sim campaign [--seeds N] [--from S] [--jobs J] [--json]   many seeds
       python -m tests.sim mutate [--seeds N] [--json]                         every rule, switched off
       python -m tests.sim explore [--world NAME] [--large] [--json]           all interleavings of small worlds"""


def main(arguments: Sequence[str]) -> int:
    """Run a verb; return its exit status: 0, 1 where something does not hold, 2 for a bad argument."""
    verb, rest = (arguments[0] if arguments else ""), list(arguments[1:])
    if verb not in VERBS:
        print(USAGE, file=sys.stdout if verb in ("-h", "--help") else sys.stderr)
        return 0 if verb in ("-h", "--help") else 2
    return VERBS[verb](rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
