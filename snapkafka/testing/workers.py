"""A worker process of an app under test, in the folder of its system, with a log."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from snapkafka.errors import TimedOutError
from snapkafka.runtime.child import Child

#: Shown of a worker that has ended, or does not join.
LINES_SHOWN: Final = 15


class Worker:
    """One worker process: `python -m ARGUMENTS`, with what can be imported here and further variables.

    Args:
        app: what it is a worker of. `log`: its name is that of the worker.
    """

    def __init__(self, app: str, log: Path, arguments: Sequence[str], env: Mapping[str, str]) -> None:
        self.app, self.log, self._arguments, self._env = app, log, arguments, env
        paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
        with log.open("ab") as out:
            self.child = Child(
                [sys.executable, "-m", *arguments],
                env={**os.environ, "PYTHONPATH": paths, **env},
                output=out,
                cwd=log.parent,
                grace_s=0,
            )

    @property
    def name(self) -> str:
        return self.log.stem

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.child.status

    def again(self) -> Worker:
        """Start it once more."""
        return Worker(self.app, self.log, self._arguments, self._env)

    def interrupt(self) -> None:
        """Let it leave its group, if it still runs; a stopped one is continued first."""
        self.child.send(signal.SIGINT, signal.SIGCONT)

    def end(self, timeout_s: float = 1.0) -> None:
        """Wait for its end, and kill it after a while."""
        self.child.wait(max(0.1, timeout_s))
        self.child.kill()

    def check_alive(self) -> None:
        """Raise if it has ended by itself, with the end of its log."""
        if self.status is not None:
            raise TimedOutError(
                f"worker {self.name} of {self.app} ended with status {self.status}; its last lines:\n"
                + self.last_lines(),
                hint="the lines above give the reason",
            )

    def last_lines(self, count: int = LINES_SHOWN) -> str:
        return "\n".join(self.log.read_text("utf-8", errors="replace").splitlines()[-count:])
