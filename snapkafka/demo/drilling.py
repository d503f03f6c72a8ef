"""A drill of the demo: its last snapshot as a throwaway fork, beside the running system."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Final

from snapkafka import ops
from snapkafka.demo.settings import TOTAL
from snapkafka.demo.story import Reporter
from snapkafka.demo.system import System
from snapkafka.kafka.login.connection import Connection
from snapkafka.runtime.locked import lock_problem
from snapkafka.verbs import Drill

INVARIANTS: Final = Path(__file__).parent / "invariants"


def run_drill(reporter: Reporter, system: System, storage: Path) -> ops.Drill:
    """Drill the newest good snapshot of a demo that runs."""
    reporter.begin("Drill: the last snapshot as a temporary fork")
    environment = {
        "SNAPKAFKA_BOOTSTRAP": system.bootstrap,
        "SNAPKAFKA_NAMESPACE": system.namespace,
        "SNAPKAFKA_DEMO_DATA": str(system.folder / "drill"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    variables = [f"{name}={value}" for name, value in environment.items()]
    options = ["worker", "-l", "warn", "--without-web"]
    commands = [
        shlex.join(
            ["env", *variables, sys.executable, "-m", "faust", "-A", f"snapkafka.demo.{app}", *options]
        )
        for app in ("accounts", "clearing")
    ]
    found = asyncio.run(
        ops.drill(
            Connection(bootstrap=system.bootstrap),
            system.namespace,
            Drill(
                apps=tuple(commands),
                storage=str(storage),
                unlocked=bool(lock_problem()),  # these apps are ours
            ),
            who="demo",
            spec=ops.JobSpec(invariants=(str(INVARIANTS),), parameters=(f"total={TOTAL}",)),
            notify=reporter.tick,
        )
    )
    reporter.done("trusted" if found.trusted else "; ".join(found.reasons))
    return found
