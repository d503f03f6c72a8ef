"""`make demo`, `snapkafka demo`, `python -m snapkafka.demo`: the main use, on real parts."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Final

from snapkafka.errors import EXIT_NOT_GOOD, DependencyMissingError, SnapkafkaError
from snapkafka.runtime.extras import require_extra

try:
    require_extra("demo", "the demo")
except DependencyMissingError as error:
    print(f"error: {error}\nwhat to do: {error.hint}", file=sys.stderr)
    sys.exit(error.exit_status)

import msgspec
from rich.console import Console

from snapkafka.demo.practice import Practice, page
from snapkafka.demo.progress import Reporter
from snapkafka.demo.story import run_drill, run_story
from snapkafka.demo.summary import as_data, print_report
from snapkafka.ops import Drill
from snapkafka.runtime.signals import Interrupted, exit_status, raise_on_ending_signals
from snapkafka.testing import RunningSystem
from snapkafka.units import format_seconds

#: Where things are kept and fetched from, and settings of the demo and of its broker.
OF_THIS_MACHINE: Final = ("SNAPKAFKA_CACHE", "SNAPKAFKA_DEMO_", "SNAPKAFKA_TEST_")
#: The variables that Faust reads before any app.
OF_FAUST: Final = ("FAUST_DATADIR", "F_DATADIR", "FAUST_LOOP", "F_LOOP", "F_WORKDIR")
WHAT: Final = "Run a broker, services, load and three snapshots on this machine; assemble and verify them."
EXAMPLE: Final = "Example: snapkafka demo --drill"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; return 0 if every snapshot is verified and every sum is right, 1 if not, else a status of
    `errors`."""
    arguments = _parser().parse_args(argv)
    forget_other_systems(os.environ)
    storage = arguments.storage.resolve() / time.strftime("%Y%m%d-%H%M%S")
    raise_on_ending_signals()
    progress = Reporter()
    started = time.monotonic()
    drilled: list[Drill] = []

    async def drill(system: RunningSystem) -> None:
        drilled.append(await run_drill(progress, storage, system))

    story = run_story(
        progress,
        storage,
        engine=arguments.engine,
        mixed=arguments.mixed,
        then=drill if arguments.drill else None,
        keep=partial(_keep, storage) if arguments.keep else None,
    )
    try:
        taken = asyncio.run(story)
    except Interrupted as interrupted:
        progress.stop()
        print("\nstopped; nothing is left running", file=sys.stderr)
        return exit_status(interrupted.number)
    except SnapkafkaError as error:
        progress.stop()
        print(f"error: {error.message}\nwhat to do: {error.hint}", file=sys.stderr)
        return error.exit_status
    if arguments.json:
        data = as_data(taken)
        print(json.dumps({**data, "drill": msgspec.to_builtins(drilled[0])} if drilled else data, indent=1))
    else:
        print_report(
            Console(markup=False, emoji=False, highlight=False, width=None if sys.stdout.isatty() else 120),
            taken,
            arguments.engine,
        )
        if drilled:
            one = drilled[0]
            print(
                f"\n{'trusted' if one.trusted else 'NOT trusted'}: snapshot {one.snapshot}",
                *one.reasons,
                sep="\n- ",
            )
            print(f"RPO {format_seconds(one.rpo_s)}, RTO {format_seconds(one.rto_s)}")
        print(f"\nDone in {time.monotonic() - started:.0f} s. Nothing is left running.")
    good = all(one.adds_up and one.manifest.verdict.startswith("VERIFIED") for one in taken)
    return 0 if good and all(one.trusted for one in drilled) else EXIT_NOT_GOOD


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="snapkafka demo", description=WHAT, epilog=EXAMPLE)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--keep", action="store_true", help="leave it running, with its page, until Ctrl-C: to practise"
    )
    parser.add_argument(
        "--storage", type=Path, default=Path("build/demo"), help="where tables and manifests go"
    )
    parser.add_argument(
        "--drill", action="store_true", help="afterwards run a drill: the last snapshot as a temporary fork"
    )
    parser.add_argument(
        "--mixed", action="store_true", help="one service is a plain loop with confluent-kafka"
    )
    parser.add_argument(
        "--engine",
        choices=("both", "embedded", "spark"),
        default="both",
        help="what assembles; both: the embedded one, and Spark verifies one",
    )
    return parser


def forget_other_systems(environ: MutableMapping[str, str]) -> None:
    """Drop settings that are meant for the user's own system: credentials, switches, the place of Faust's data."""
    for name in list(environ):
        if name in OF_FAUST or (name.startswith("SNAPKAFKA") and not name.startswith(OF_THIS_MACHINE)):
            del environ[name]


async def _keep(storage: Path, system: RunningSystem) -> None:
    practice = Practice(system, storage)
    with page(system, storage) as where:
        practice.invite(where)
        await practice.go_on()


if __name__ == "__main__":
    sys.exit(main())
