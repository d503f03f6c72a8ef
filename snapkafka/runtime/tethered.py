"""`python -m snapkafka.runtime.tethered PID SECONDS COMMAND...`: a command that ends when process PID does.

A killed process cannot send signals to its children. `ending_with` is for children that use it; this process watches
over any other: it passes TERM and INT on, sends TERM when PID has ended, and ends as the command does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from .child import ending_with


def tethered(command: Sequence[str], *, grace_s: float, python: str = sys.executable) -> list[str]:
    """Return the words that start a command which ends when this process does, however that happens.

    Args:
        grace_s: the time for its clean-up after TERM.
        python: one with snapkafka installed.
    """
    return [python, "-m", __name__, str(os.getpid()), f"{grace_s:g}", *command]


def run(parent: int, grace_s: float, command: Sequence[str]) -> int:
    """Run a command until it or `parent` ends, and return its exit status; if a signal killed it, end by that."""
    process = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    with ending_with(parent, grace_s=grace_s):
        status = process.wait()
    if status < 0:
        with contextlib.suppress(OSError):  # of SIGKILL there is no other action
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
