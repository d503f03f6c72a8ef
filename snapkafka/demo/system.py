"""The running system of the demo: two Faust services with two workers each, as processes of their own.

Tests use it too: it is a real system under load, in a cycle, with money that must add up.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from snapkafka.demo.settings import CHANGELOG_SETTINGS, PARTITIONS, TOPICS, changelog
from snapkafka.errors import TimedOutError
from snapkafka.runtime.signals import Interrupted
from snapkafka.testing import create_topics, watchdog
from snapkafka.until import blocking_until

#: A Faust worker starts in 3-8 s alone; four at once on two cores take longer.
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 20.0
#: Where somebody has pressed Ctrl-C.
INTERRUPTED_STOP_S: Final = 0.5


@dataclass(slots=True)
class Worker:
    """One Faust worker process."""

    app: str
    name: str
    process: subprocess.Popen[bytes]
    log: Path
    watchdog: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def interrupt(self) -> None:
        """Send SIGINT, if it still runs; a stopped one is continued first."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT)
            self.process.send_signal(signal.SIGCONT)

    def end(self, timeout_s: float = 1.0) -> None:
        """Wait for its end, and kill it after a while."""
        try:
            self.process.wait(max(0.1, timeout_s))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.watchdog.kill()
        self.watchdog.wait()

    def last_lines(self, count: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


@dataclass(slots=True)
class System:
    """The workers and their broker."""

    bootstrap: str
    namespace: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    _started: Counter[str] = field(default_factory=Counter)

    def start_worker(
        self,
        app: str,
        env: Mapping[str, str] | None = None,
        *,
        module: str = "",
        loop: str = "",
        options: Sequence[str] = ("--without-web",),
    ) -> Worker:
        """Start one more worker of `accounts` or `clearing`, or of the app in `module`; `options` are Faust's.

        Args:
            loop: the module of a plain loop, which is run instead.
        """
        self._started[app] += 1
        name = f"{app}-{self._started[app]}"
        log = self.folder / f"{name}.txt"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *([loop] if loop else _faust(app, module, options))],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C is for us: workers are stopped in order
                env=os.environ
                | {
                    "SNAPKAFKA_BOOTSTRAP": self.bootstrap,
                    "SNAPKAFKA_NAMESPACE": self.namespace,
                    "SNAPKAFKA_DEMO_DATA": str(self.folder / name),
                    "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
                }
                | dict(env or {}),
            )
        guard = subprocess.Popen(
            [sys.executable, "-I", watchdog.__file__, str(os.getpid()), str(process.pid)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        worker = Worker(app=app, name=name, process=process, log=log, watchdog=guard)
        self.workers.append(worker)
        return worker

    def workers_of(self, app: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.app == app]

    def ended(self) -> list[Worker]:
        """Return the workers that have ended by themselves."""
        return [worker for worker in self.workers if worker.process.poll() is not None]

    def restart(self, worker: Worker) -> Worker:
        """Start a new worker of the same app in the place of one that has ended."""
        self.workers.remove(worker)
        worker.end()
        return self.start_worker(worker.app)

    def check_alive(self) -> None:
        """Raise if a worker has ended by itself, with the end of its log."""
        for worker in self.ended():
            raise TimedOutError(
                f"worker {worker.name} ended with status {worker.process.returncode}; its last lines:\n"
                + worker.last_lines(),
                hint="the lines above give the reason",
            )

    def kill(self, worker: Worker) -> None:
        """Kill a worker with `kill -9`, and forget it."""
        self.workers.remove(worker)
        worker.process.kill()
        worker.end()

    def interrupt(self, worker: Worker) -> None:
        """Let one worker leave in order, as a rolling restart does; it is no longer ours."""
        self.workers.remove(worker)
        worker.interrupt()
        worker.end(STOP_TIMEOUT_S)

    def stop(self, within_s: float = STOP_TIMEOUT_S) -> None:
        """Stop every worker, gently first; none is left behind."""
        for worker in self.workers:
            worker.interrupt()
        deadline = time.monotonic() + within_s
        for worker in self.workers:
            worker.end(deadline - time.monotonic())
        self.workers.clear()


def _faust(app: str, module: str, options: Sequence[str]) -> list[str]:
    return ["faust", "-A", module or f"snapkafka.demo.{app}", "worker", "-l", "warn", *options]


def wait_until(
    what: str,
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    system: System | None = None,
    period_s: float = 0.1,
) -> None:
    """Wait for a condition, as long as every worker of the system runs."""

    def holds() -> bool:
        if condition():
            return True
        if system is not None:
            system.check_alive()
        return False

    blocking_until(holds, timeout_s, what, every_s=period_s)


@contextlib.contextmanager
def running_system(
    bootstrap: str,
    namespace: str,
    *,
    env: Callable[[str, int], Mapping[str, str]] | None = None,
    modules: Mapping[str, str] | None = None,
    loops: Mapping[str, str] | None = None,
) -> Iterator[System]:
    """Start the topics and the four workers; stop them at the end of the block.

    Args:
        bootstrap: the broker.
        namespace: of the snapshots.
        env: settings per worker, by app and number (0, 1).
        modules: another module for a worker, by its name ("accounts-1").
        loops: the module of a plain loop for all workers of an app, by its name.
    """
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-demo-"))
    tables = (changelog("accounts", "balances"), changelog("clearing", "passed"))
    create_topics(bootstrap, *TOPICS, partitions=PARTITIONS)
    create_topics(bootstrap, *tables, partitions=PARTITIONS, config=CHANGELOG_SETTINGS)
    system = System(bootstrap=bootstrap, namespace=namespace, folder=folder)
    try:
        for number in range(2):
            for app in ("accounts", "clearing"):
                module = (modules or {}).get(f"{app}-{number + 1}", "")
                system.start_worker(
                    app, env(app, number) if env else None, module=module, loop=(loops or {}).get(app, "")
                )
        yield system
    except Interrupted:
        system.stop(INTERRUPTED_STOP_S)
        raise
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)
