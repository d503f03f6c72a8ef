"""The workers of a drill end with it, in order, also where it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from snapkafka.testing import wait_until

#: Says when it runs, and leaves in order at TERM.
WORKER = """
import pathlib, signal, sys
def leave(*_):
    pathlib.Path(sys.argv[1], "left").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
pathlib.Path(sys.argv[1], "runs").touch()
signal.pause()
"""
DRILL = """
import pathlib, signal, sys
from snapkafka.ops.drill.workers import Workers
workers = Workers(pathlib.Path(sys.argv[1]))
workers.start([[sys.executable, "-c", sys.argv[2], sys.argv[1]]], "night")
signal.pause()
"""


def test_workers_leave_in_order_when_the_drill_was_killed(tmp_path: Path) -> None:
    drill = subprocess.Popen([sys.executable, "-c", DRILL, str(tmp_path), WORKER])
    try:
        wait_until("the worker to run", (tmp_path / "runs").exists, timeout_s=60)
        started = psutil.Process(drill.pid).children(recursive=True)
        assert len(started) == 2, "the worker, and what watches for it"
        os.kill(drill.pid, signal.SIGKILL)
        wait_until("all to end", lambda: not any(map(_runs, started)), timeout_s=30)
        assert (tmp_path / "left").exists(), "it was killed"
    finally:
        drill.kill()
        drill.wait()


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
