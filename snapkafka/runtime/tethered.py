"""`python -m snapkafka.runtime.tethered PID COMMAND...`: any command as a child of process PID, ending with that.

`ending_with` is for our own processes. Others know nothing of their parent: this one watches for them, passes TERM and
INT on, and ends as they do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from .child import ending_with

__all__ = ["GRACE_S", "run", "tethered"]

#: A worker leaves its consumer group in order within this time.
GRACE_S: Final = 20.0


def tethered(command: Sequence[str]) -> list[str]:
    """Return what starts a command that ends when this process does, however that happens."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *command]


def run(parent: int, command: Sequence[str]) -> int:
    """Run a command until it ends or `parent` has; its exit status, 128 and the number for a signal."""
    process = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    with ending_with(parent, grace_s=GRACE_S):
        status = process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), sys.argv[2:]))
