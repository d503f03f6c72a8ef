"""A watchdog that ends an embedded broker whose owner has ended: the owner cannot do it itself after `kill -9`.

It is a process of its own, run by path as `python -I watchdog.py OWNER BROKER FOLDER...`: waits until the owner is no
longer its parent, then kills the broker and removes the folders. (`PR_SET_PDEATHSIG` would be shorter, but exists on
Linux only and fires when the *thread* that started the broker ends.) The owner ends the watchdog when it stops the
broker itself.
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


def main(owner: int, broker: int, folders: list[str]) -> None:
    """Wait for the end of `owner`, then kill the process `broker` and remove `folders`."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the owner, who may need time to stop the broker
    while os.getppid() == owner:
        time.sleep(PERIOD_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(broker, signal.SIGKILL)
    time.sleep(PERIOD_S)  # let it go before its files do
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
