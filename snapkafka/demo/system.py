"""The running system of the demo: two Faust services with two workers each, as processes of their own.

Tests use it too: it is a real system under load, in a cycle, with money that must add up.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from snapkafka.demo.settings import CHANGELOG_SETTINGS, PARTITIONS, TOPICS, changelog
from snapkafka.runtime.signals import Interrupted
from snapkafka.testing import create_topics
from snapkafka.testing.workers import STOP_TIMEOUT_S, Worker, check_alive, start_worker, stop_workers
from snapkafka.until import blocking_until

#: Where somebody has pressed Ctrl-C.
INTERRUPTED_STOP_S: Final = 0.5


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
        here = {
            "SNAPKAFKA_BOOTSTRAP": self.bootstrap,
            "SNAPKAFKA_NAMESPACE": self.namespace,
            "SNAPKAFKA_DEMO_DATA": str(self.folder / name),
        }
        arguments = [loop] if loop else _faust(app, module, options)
        worker = start_worker(
            app, self.folder / f"{name}.txt", arguments, {**here, **(env or {})}, self.folder
        )
        self.workers.append(worker)
        return worker

    def workers_of(self, app: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.app == app]

    def ended(self) -> list[Worker]:
        """Return the workers that have ended by themselves."""
        return [worker for worker in self.workers if worker.status is not None]

    def restart(self, worker: Worker) -> Worker:
        """Start a new worker of the same app in the place of one that has ended."""
        self.workers.remove(worker)
        worker.end()
        return self.start_worker(worker.app)

    def check_alive(self) -> None:
        """Raise if a worker has ended by itself, with the end of its log."""
        check_alive(self.workers)

    def kill(self, worker: Worker) -> None:
        """Kill a worker with `kill -9`, and forget it."""
        self.workers.remove(worker)
        worker.child.kill()

    def interrupt(self, worker: Worker) -> None:
        """Let one worker leave in order, as a rolling restart does; it is no longer ours."""
        self.workers.remove(worker)
        worker.interrupt()
        worker.end(STOP_TIMEOUT_S)

    def interrupt_all(self) -> None:
        """Let all workers leave, without waiting for that."""
        for worker in self.workers:
            worker.interrupt()

    def stop(self, within_s: float = STOP_TIMEOUT_S) -> None:
        """Stop every worker, gently first; none is left behind."""
        stop_workers(self.workers, within_s)


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
