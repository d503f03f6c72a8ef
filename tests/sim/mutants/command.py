"""`python -m tests.sim mutate`: every rule, switched off."""

from __future__ import annotations

import argparse
import json

from .search import Caught, mutate


def main(arguments: list[str]) -> int:
    """Search a seed for each mutant; return 0 if each has one, else 1."""
    parser = argparse.ArgumentParser("python -m tests.sim mutate")
    parser.add_argument("--seeds", type=int, default=10_000, help="at most so many for each (10,000)")
    parser.add_argument("--json", action="store_true", help="the result as data")
    options = parser.parse_args(arguments)

    def notify(caught: Caught) -> None:
        if not options.json:
            how = (
                f"caught by seed {caught.seed}: {caught.violation}"
                if caught.seed is not None
                else "NOT CAUGHT"
            )
            print(f"{caught.mutant.name:18} {caught.mutant.what}: {how}", flush=True)

    found = mutate(options.seeds, notify=notify)
    if options.json:
        data = {
            c.mutant.name: {"caught": c.seed is not None, "seed": c.seed, "what": c.mutant.what}
            for c in found
        }
        print(json.dumps(data, indent=1))
    return 0 if all(caught.seed is not None for caught in found) else 1
