"""A command ends with its parent, as after SIGTERM, also where the parent was killed; it ends as it would alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from snapkafka.demo import wait_until
from snapkafka.runtime.tethered import tethered

#: Notes that it runs, and leaves in order at TERM.
COMMAND = """
import pathlib, signal, sys
def leave(*_):
    pathlib.Path(sys.argv[1], "left").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
pathlib.Path(sys.argv[1], "runs").touch()
signal.pause()
"""
PARENT = """
import subprocess, sys
from snapkafka.runtime.tethered import tethered
subprocess.run(tethered(sys.argv[1:], grace_s=20), start_new_session=True)
"""


def test_the_command_ends_in_order_when_its_parent_was_killed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", COMMAND, str(tmp_path)]
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *words])
    try:
        wait_until("the command to run", (tmp_path / "runs").exists, timeout_s=60)
        started = psutil.Process(parent.pid).children(recursive=True)
        assert len(started) == 2, "the command, and what watches for it"
        os.kill(parent.pid, signal.SIGKILL)
        wait_until("both to end", lambda: not any(map(_runs, started)), timeout_s=15)
        assert (tmp_path / "left").exists(), "it was killed"
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import sys; sys.exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM),
    ],
)
def test_it_ends_as_the_command_does(code: str, status: int) -> None:
    words = tethered([sys.executable, "-c", code], grace_s=5)
    assert subprocess.run(words, timeout=60).returncode == status


def test_term_is_passed_on(tmp_path: Path) -> None:
    words = tethered([sys.executable, "-c", COMMAND, str(tmp_path)], grace_s=5)
    with subprocess.Popen(words) as started:
        wait_until("the command to run", (tmp_path / "runs").exists, timeout_s=60)
        started.terminate()
        assert started.wait(30) == 143
    assert (tmp_path / "left").exists()


def _runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
