"""`make demo`, `snapkafka demo`, `python -m snapkafka.demo`: the main use, on real parts."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from snapkafka.errors import EXIT_NOT_GOOD, DependencyMissingError, SnapkafkaError, StorageError
from snapkafka.runtime.extras import require_extra

try:
    require_extra("demo", "the demo")
except DependencyMissingError as error:
    print(f"error: {error}\nwhat to do: {error.hint}", file=sys.stderr)
    sys.exit(error.exit_status)

import msgspec

from snapkafka.demo.story import Reporter, run_story
from snapkafka.demo.summary import print_report
from snapkafka.runtime.signals import Interrupted, exit_status, raise_on_ending_signals

#: Where things are kept and fetched from, and settings of the demo and of its broker.
OF_THIS_MACHINE: Final = ("SNAPKAFKA_CACHE", "SNAPKAFKA_DEMO_", "SNAPKAFKA_TEST_")
#: The variables that Faust reads before any app.
OF_FAUST: Final = ("FAUST_DATADIR", "F_DATADIR", "FAUST_LOOP", "F_LOOP", "F_WORKDIR")
WHAT: Final = "Run a broker, services, load and three snapshots on this machine; assemble and verify them."
EXAMPLE: Final = "Example: snapkafka demo --keep"


def main(argv: list[str] | None = None) -> int:
    """Run the demo; return 0 if every snapshot is verified and every sum is right, 1 if not, else a status of
    `errors`."""
    arguments = _parser().parse_args(argv)
    forget_other_systems(os.environ)
    storage = arguments.storage.resolve() / time.strftime("%Y%m%d-%H%M%S")
    raise_on_ending_signals()
    started = time.monotonic()
    try:
        storage.mkdir(parents=True)
        found = asyncio.run(run_story(Reporter(), storage, engine=arguments.engine, keep=arguments.keep))
    except Interrupted as interrupted:
        print("\nstopped; nothing is left running", file=sys.stderr)
        return exit_status(interrupted.number)
    except (OSError, SnapkafkaError) as problem:
        error = (
            problem if isinstance(problem, SnapkafkaError) else StorageError(f"{storage}: {problem.strerror}")
        )
        print(f"error: {error.message}\nwhat to do: {error.hint}", file=sys.stderr)
        return error.exit_status
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        print_report(found, arguments.engine)
        print(f"\nDone in {time.monotonic() - started:.0f} s. Nothing is left running.")
    return 0 if all(one.good for one in found.snapshots) else EXIT_NOT_GOOD


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


if __name__ == "__main__":
    sys.exit(main())
