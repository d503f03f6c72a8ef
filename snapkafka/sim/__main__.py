"""`python -m snapkafka.sim`: one seed, and scenarios of your own.

A scenario is a file that lists the sends, the deliveries and the starts of snapshots, in their order; see
docs/guide/simulator.md. The same file yields the same output, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from snapkafka.errors import BadInputError

from .runs import run
from .story.file import load_story
from .story.play import play_story


def main(arguments: Sequence[str]) -> int:
    """Run a seed, or a scenario; return 0, 1 where something does not hold, 2 for a bad argument or file."""
    parser = argparse.ArgumentParser("python -m snapkafka.sim")
    parser.add_argument("--seed", type=int, help="run one seed and print its trace")
    story = parser.add_subparsers(dest="verb").add_parser(
        "run", help="run a scenario, and print its snapshots"
    )
    story.add_argument("file", type=Path, metavar="FILE.json", help="the scenario")
    story.add_argument(
        "--one-ledger", action="store_true", help="one for all snapshots: one cut may serve several"
    )
    asked = parser.parse_args(arguments)
    if asked.verb:
        return _story(asked.file, one_ledger=asked.one_ledger)
    if asked.seed is None:
        parser.error("what is to run: --seed N, or a scenario?")
    outcome = run(asked.seed)
    print("\n".join(outcome.trace))
    for violation in outcome.violations:
        print(f"VIOLATION {violation.rule}: {violation.what}")
    print(json.dumps(dict(sorted(outcome.counts.items()))))
    return 1 if outcome.violations else 0


def _story(file: Path, *, one_ledger: bool) -> int:
    """Print the snapshots of a scenario as JSON, or one line on stderr if the file is invalid."""
    try:
        found = play_story(load_story(file), one_ledger=one_ledger)
    except BadInputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(json.dumps({"snapshots": [outcome.as_data() for outcome in found]}))
    for outcome in found:
        if outcome.unreached:
            names = ", ".join(outcome.unreached)
            print(f"snapshot {outcome.id}: no marker can reach {names}; it waits in vain", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
