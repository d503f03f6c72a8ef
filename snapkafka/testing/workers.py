"""Worker processes of the apps under test, in the folder of their system, with a log each."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from snapkafka.errors import TimedOutError
from snapkafka.runtime.child import Child

#: A Faust worker starts in 3-8 s alone; several at once on a busy machine take far longer.
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 20.0
#: Shown of a worker that has ended, or does not join.
LINES_SHOWN: Final = 15


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker process."""

    app: str
    name: str
    child: Child
    log: Path

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.child.status

    def interrupt(self) -> None:
        """Let it leave its group, if it still runs; a stopped one is continued first."""
        self.child.send(signal.SIGINT, signal.SIGCONT)

    def end(self, timeout_s: float = 1.0) -> None:
        """Wait for its end, and kill it after a while."""
        self.child.wait(max(0.1, timeout_s))
        self.child.kill()

    def last_lines(self, count: int = LINES_SHOWN) -> str:
        return "\n".join(self.log.read_text("utf-8", errors="replace").splitlines()[-count:])


def start_worker(
    app: str, log: Path, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None = None
) -> Worker:
    """Start a worker: `python -m ARGUMENTS`, with what can be imported here and further variables."""
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
    with log.open("ab") as out:
        child = Child(
            [sys.executable, "-m", *arguments],
            env={**os.environ, "PYTHONPATH": paths, **env},
            output=out,
            cwd=cwd,
            grace_s=0,
        )
    return Worker(app, log.stem, child, log)


def check_alive(workers: Iterable[Worker]) -> None:
    """Raise if a worker has ended by itself, with the end of its log."""
    for worker in workers:
        if worker.status is not None:
            raise TimedOutError(
                f"worker {worker.name} of {worker.app} ended with status {worker.status}; its last lines:\n"
                + worker.last_lines(),
                hint="the lines above give the reason",
            )


def stop_workers(workers: list[Worker], within_s: float = STOP_TIMEOUT_S) -> None:
    """Stop every worker, gently first; none is left behind."""
    for worker in workers:
        worker.interrupt()
    deadline = time.monotonic() + within_s
    for worker in workers:
        worker.end(deadline - time.monotonic())
    workers.clear()
