"""A test harness that runs your services on a Kafka of their own, and takes snapshots of them that must be consistent.

::

    with snapkafka.testing.system(orders.app, payments.app) as s:
        s.send("orders", {"id": 1, "amount": 5}, key="1")
        s.snapshot().assert_consistent()

Each app runs in a worker process of its own, as in production, with a broker that this machine (or Docker) starts; the
app's own broker is replaced before it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapkafka import ops
from snapkafka.errors import BadInputError, LedgerUnusableError, SnapkafkaError, TimedOutError
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.runtime.signals import Interrupted
from snapkafka.testing.embedded import create_topics, kafka
from snapkafka.testing.taken import Taken, await_work
from snapkafka.testing.workers import Worker
from snapkafka.until import blocking_until

if TYPE_CHECKING:
    from snapkafka.protocol.ledger_state import LedgerState

T = TypeVar("T")

SEND_TIMEOUT_S: Final = 30.0
#: A Faust worker starts in 3-8 s alone; several at once on a busy machine take far longer.
START_TIMEOUT_S: Final = 120.0
STOP_TIMEOUT_S: Final = 20.0
#: Where somebody has pressed Ctrl-C.
INTERRUPTED_STOP_S: Final = 0.5
POLL_S: Final = 0.2


@dataclass
class RunningSystem:
    """The workers of the apps under test, and their broker. `storage`: for tables; removed at the end."""

    bootstrap: str
    namespace: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    _taken: int = 0
    _started: Counter[str] = field(default_factory=Counter)

    @property
    def connection(self) -> Connection:
        return Connection(bootstrap=self.bootstrap)

    @property
    def storage(self) -> Path:
        return self.folder / "snapshots"

    def send(self, topic: str, *values: Any, key: str | bytes | None = None) -> None:
        """Send records and wait until the broker has them. Bytes go as they are, all else as JSON.

        A key goes to the partition that Faust chooses for it (murmur2; librdkafka's own default is another one).

        Raises:
            TimedOutError: the broker does not acknowledge them.
        """
        from confluent_kafka import Producer

        settings = {"bootstrap.servers": self.bootstrap, "log_level": 0, "partitioner": "murmur2_random"}
        producer = Producer(settings)
        for value in values:
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, raw, key=key.encode() if isinstance(key, str) else key)
        if left := producer.flush(SEND_TIMEOUT_S):
            raise TimedOutError(f"{left} records were not acknowledged in {SEND_TIMEOUT_S:.0f} s")

    def snapshot(self, *, ttl_ms: int = 20_000, align: bool = False) -> Taken:
        """Take a snapshot of the running system, and wait until it is captured.

        Args:
            align: as `snapkafka trigger --align`.

        Raises:
            SnapshotFailedError: it was not captured; the message names the cause.
        """
        self.check_alive()
        self._taken += 1
        name = f"test-{self._taken}"
        asked: dict[str, Any] = {
            "snapshot_id": name,
            "ttl_ms": ttl_ms,
            "align": align,
            "who": "snapkafka.testing",
        }
        epoch = await_work(ops.trigger(self.connection, self.namespace, wait=True, **asked)).epoch
        return Taken(self.connection, self.namespace, self.storage, name, epoch)

    def wait_until(self, what: str, condition: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Wait for a condition, as long as every worker runs.

        Raises:
            TimedOutError: with what was awaited.
        """
        wait_until(what, condition, timeout_s=timeout_s, system=self, period_s=POLL_S)

    def check_alive(self) -> None:
        """Raise if a worker has ended by itself, with its last lines."""
        for worker in self.workers:
            worker.check_alive()

    # -- life of the workers --------------------------------------------------------------------------------------

    def start_worker(
        self,
        app: str,
        env: Mapping[str, str] | None = None,
        *,
        module: str = "",
        options: Sequence[str] = ("--without-web",),
    ) -> Worker:
        """Start one more worker.

        Args:
            app: `module:attribute`, whose broker is replaced; or the name of what `module` runs.
            module: of a Faust app that takes its broker from SNAPKAFKA_BOOTSTRAP; `options` are of Faust's command.
        """
        self._started[app] += 1
        name = f"{app.replace(':', '-')}-{self._started[app]}"
        data = str(self.folder / name)
        here = {
            "SNAPKAFKA_BOOTSTRAP": self.bootstrap,
            "SNAPKAFKA_NAMESPACE": self.namespace,
            "SNAPKAFKA_DEMO_DATA": data,
        }
        if module:
            arguments = ["faust", "-A", module, "worker", "-l", "warn", *options]
        else:
            arguments = ["snapkafka.testing.run_worker", app, self.bootstrap, data]
        worker = Worker(app, self.folder / f"{name}.txt", arguments, {**here, **(env or {})})
        self.workers.append(worker)
        return worker

    def workers_of(self, app: str) -> list[Worker]:
        return [worker for worker in self.workers if worker.app == app]

    def restart(self, worker: Worker) -> Worker:
        """Start a worker that has ended once more."""
        self.workers.remove(worker)
        worker.end()
        self.workers.append(again := worker.again())
        return again

    def kill(self, worker: Worker) -> None:
        """Kill a worker with `kill -9`, and forget it."""
        self.workers.remove(worker)
        worker.child.kill()

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

    def await_workers(self) -> None:
        """Wait until all workers have joined and every input of every app has an owner.

        Raises:
            TimedOutError: with the last lines of each.
        """

        def ready() -> bool:
            try:
                reading = await_work(ops.read_ledger(self.connection, self.namespace))
            except LedgerUnusableError:  # the first worker makes it
                return False
            return settled(reading.state, len(self.workers))

        try:
            self.wait_until(f"{len(self.workers)} workers to join", ready, timeout_s=START_TIMEOUT_S)
        except SnapkafkaError as error:
            logs = "\n".join(f"{worker.app}:\n{worker.last_lines()}" for worker in self.workers)
            raise TimedOutError(f"{error.message}\n{logs}", hint=error.hint) from error


def wait_until(
    what: str,
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    system: RunningSystem | None = None,
    period_s: float = 0.1,
) -> None:
    """Wait for a condition, as long as every worker of the system runs.

    Raises:
        TimedOutError: with what was awaited.
    """

    def holds() -> bool:
        if condition():
            return True
        if system is not None:
            system.check_alive()
        return False

    blocking_until(holds, timeout_s, what, every_s=period_s)


@contextlib.contextmanager
def started(
    bootstrap: str, namespace: str, start: Callable[[RunningSystem], None]
) -> Iterator[RunningSystem]:
    """Run the workers that `start` starts for the length of the block, in a folder of their own."""
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-system-"))
    running, within_s = RunningSystem(bootstrap, namespace, folder), STOP_TIMEOUT_S
    try:
        start(running)
        yield running
    except (Interrupted, asyncio.CancelledError):
        within_s = INTERRUPTED_STOP_S
        raise
    finally:
        running.stop(within_s)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def system(
    *apps: Any,
    workers: int = 1,
    bootstrap: str = "",
    namespace: str = "",
    topics: Mapping[str, int] | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[RunningSystem]:
    """Run apps for the length of the block: a broker, their topics, worker processes that have all their inputs.

    Args:
        apps: `faust.App`s that are attributes of modules, or `module:attribute`; all with snapkafka installed.
        workers: of each app.
        bootstrap: a running broker; empty: one is started (`snapkafka.testing.kafka`). On a shared one the apps meet
            records of earlier tests.
        namespace: of the snapshots; empty: that of the apps.
        topics: further topics to create, with their partition counts, or other counts for the apps' own.
        env: variables of the environment of the workers.

    Raises:
        BadInputError: an app cannot be imported by a worker, or has no snapkafka.
        TimedOutError: a worker ended, or did not get its inputs; with its last lines.
    """
    if not apps:
        raise BadInputError(
            "system() needs an app", hint="snapkafka.testing.system(orders.app, payments.app)"
        )
    targets = [_target(app) for app in apps]
    found = [_import(target) for target in targets]
    namespace = namespace or _namespace(targets, found)
    wanted = {name: count for app in found for name, count in _topics_of(app).items()} | dict(topics or {})
    with contextlib.ExitStack() as stack:
        where = bootstrap or stack.enter_context(kafka()).bootstrap
        for count in sorted(set(wanted.values())):
            create_topics(
                where, *(name for name in sorted(wanted) if wanted[name] == count), partitions=count
            )

        def start(running: RunningSystem) -> None:
            for target in targets * workers:
                running.start_worker(target, env)
            running.await_workers()

        yield stack.enter_context(started(where, namespace, start))


def settled(state: LedgerState, workers: int) -> bool:
    """Return whether so many workers have joined, and every input has exactly one owner among them."""
    living = list(state.living())
    if len(living) < workers or any(view.assigned < 0 and view.hello.inputs for view in living):
        return False
    inputs = {
        (view.hello.app, TopicPartition(source.topic, partition))
        for view in living
        for source in view.hello.inputs
        for partition in range(source.partitions)
    }
    owned = {(view.hello.app, tp) for view in living for tp in view.inputs}
    once = sum(len(view.inputs) for view in living) == len(owned)
    return inputs == owned and once


def _target(app: Any) -> str:
    """Return `module:attribute`, by which a worker imports an app."""
    if isinstance(app, str):
        return app if ":" in app else f"{app}:app"
    for name, module in list(sys.modules.items()):
        if name == "__main__" or not isinstance(module, ModuleType):  # something else may stand there
            continue
        for attribute, value in list(vars(module).items()):
            if value is app:
                return f"{name}:{attribute}"
    raise BadInputError(
        f"{app!r} is not an attribute of a module, so worker processes cannot import it",
        hint="define it in a module, or name it as 'module:attribute'",
    )


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadInputError(
            f"the app {target} cannot be imported: {error}", hint="write it as 'module:attribute'"
        ) from error


def _namespace(targets: Sequence[str], apps: Sequence[Any]) -> str:
    namespaces: dict[str, str] = {}
    for target, app in zip(targets, apps, strict=True):
        driver = getattr(app, "snapkafka", None)
        if driver is None:
            raise BadInputError(
                f"the app {target} has no snapkafka",
                hint='snapkafka.install(app, namespace="...") in its module',
            )
        namespaces[target] = driver.config.namespace
    if len(set(namespaces.values())) > 1:
        each = ", ".join(f"{target}: {namespace}" for target, namespace in namespaces.items())
        raise BadInputError(f"the apps are in different namespaces ({each})", hint="a snapshot covers one")
    return next(iter(namespaces.values()))


def _topics_of(app: Any) -> dict[str, int]:
    """Return the topics that the app's agents read, with the partitions that Faust would give them."""
    channels = [agent.channel for agent in app.agents.values()]
    return {
        str(name): channel.partitions or app.conf.topic_partitions
        for channel in channels
        for name in getattr(channel, "topics", None) or ()
    }
