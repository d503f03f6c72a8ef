"""A watchdog that ends a process whose owner has ended: after `kill -9` the owner cannot do it itself.

It is a process of its own, run by path as `python -I -S watchdog.py OWNER PROCESS SECONDS FOLDER...`: when the owner is
no longer its parent, PROCESS gets TERM, its group is killed after SECONDS at most, and the folders are removed.
(`PR_SET_PDEATHSIG` exists on Linux only, does not cover what a process has started, and fires when the *thread* that
started it ends.) The owner ends the watchdog when it has ended the process itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

#: How often to look, in seconds: soon enough for the next test run, and next to no work.
PERIOD_S = 0.25


def main(owner: int, process: int, grace_s: float, folders: list[str]) -> None:
    """Wait for the end of `owner`, then end the process and its group, and remove the folders."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who may need time
    while os.getppid() == owner:
        time.sleep(PERIOD_S)
    with contextlib.suppress(ProcessLookupError):
        kill_at = time.monotonic() + grace_s
        os.kill(process, signal.SIGTERM)
        while time.monotonic() < kill_at:
            time.sleep(min(PERIOD_S, grace_s))
            os.kill(process, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS refuses if all are dead
        os.killpg(process, signal.SIGKILL)
    time.sleep(PERIOD_S)  # let it go before its files do
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
