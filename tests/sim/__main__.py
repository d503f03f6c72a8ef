"""`python -m tests.sim`: many seeds, every rule switched off, all interleavings of small worlds."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from .campaign import campaign
from .explore.search import Broken, explore, replay
from .explore.small import LARGE, SMALL, WORLDS
from .mutants.search import first_caught
from .mutants.table import MUTANTS


def main(arguments: Sequence[str]) -> int:
    """Run a verb; return its exit status: 0, 1 where something does not hold, 2 for a bad argument."""
    parser = argparse.ArgumentParser("python -m tests.sim")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("campaign", help="many seeds")
    verb.add_argument("--seeds", type=int, default=100, help="how many (%(default)s)")
    verb.add_argument("--from", type=int, default=0, dest="first", help="the first of them (%(default)s)")
    verb.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (one per core)")
    verb = verbs.add_parser("mutate", help="every rule, switched off")
    verb.add_argument("--seeds", type=int, default=10_000, help="at most so many for each (%(default)s)")
    verb = verbs.add_parser("explore", help="all interleavings of small worlds")
    verb.add_argument("--world", choices=WORLDS, help="one world only")
    verb.add_argument("--large", action="store_true", help="the large worlds too (half an hour)")
    verb.add_argument(
        "--replay", metavar="CHOICES", help="one run of the world: its choices, separated by ';'"
    )
    options = parser.parse_args(arguments)
    if options.verb == "campaign":
        report = campaign(options.first, options.seeds, jobs=options.jobs)
        print(report)
        return 1 if report.violations else 0
    if options.verb == "mutate":
        return _mutate(options.seeds)
    if options.replay is None:
        names = [options.world] if options.world else [*SMALL, *(LARGE if options.large else ())]
        return _explore(names)
    if options.world is None:
        parser.error("--replay needs --world")
    try:
        lines, wrong = replay(WORLDS[options.world], [it.strip() for it in options.replay.split(";")])
    except ValueError as error:
        parser.error(str(error))
    print("\n".join([*lines, *(f"VIOLATION {it.rule}: {it.what}" for it in wrong)]))
    return 1 if wrong else 0


def _mutate(seeds: int) -> int:
    missed = 0
    for mutant in MUTANTS:
        if mutant.seed is not None:
            caught = first_caught(mutant, seeds)
            missed += caught is None
            how = "NOT CAUGHT" if caught is None else f"caught by seed {caught[0]}: {caught[1]}"
            print(f"{mutant.what}: {how}", flush=True)
    return 1 if missed else 0


def _explore(names: Sequence[str]) -> int:
    states = violations = 0
    for name in names:
        small, started = WORLDS[name], time.process_time()
        found = explore(small)
        if found.states < small.states:
            what = f"{found.states} states, and there were {small.states}: something is not tried any more"
            found.violations.append(Broken(name, "states", what, ()))
        states, violations = states + found.states, violations + len(found.violations)
        print(
            f"{name}: {found.states} distinct states, {found.transitions} transitions, "
            f"{found.ends} ends, {len(found.outcomes)} outcomes ({time.process_time() - started:.1f} s)"
        )
        for ending, times in sorted(found.endings().items()):
            print(f"    {times:6} {ending}")
        for broken in found.violations[:5]:
            print(f"    {broken}", flush=True)
    print(f"{states} distinct states in {len(names)} worlds, {violations or 'no'} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
