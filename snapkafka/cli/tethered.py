"""`python -m snapkafka.cli.tethered PID ...`: the command as a child of process PID, at whose end it ends as well.

A scheduler that is killed can send no signal. The command then behaves as after SIGTERM: a drill ends its workers and
removes its fork.
"""

from __future__ import annotations

import sys
from typing import Final

from snapkafka.cli import main
from snapkafka.runtime.child import ending_with

__all__ = ["GRACE_S", "run"]

#: More than any command needs to put things away: a drill ends itself after 180 s.
GRACE_S: Final = 190.0


def run() -> None:
    """Run the command with the arguments behind PID; never returns."""
    parent = int(sys.argv.pop(1))
    with ending_with(parent, grace_s=GRACE_S):
        main()


if __name__ == "__main__":
    run()
