"""A test harness that runs your services on a Kafka of their own, and takes snapshots of them that must be consistent.

::

    with snapkafka.testing.system(orders.app, payments.app) as s:
        s.send("orders", {"id": 1, "amount": 5}, key="1")
        s.snapshot().assert_consistent()

Each app runs in a worker process of its own, as in production, with a broker that this machine (or Docker) starts; the
app's own broker is replaced before it starts.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapkafka import ops
from snapkafka.errors import BadInputError, LedgerUnusableError, SnapkafkaError, TimedOutError
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing.broker import create_topics, kafka
from snapkafka.testing.taken import Taken, await_work
from snapkafka.testing.workers import START_TIMEOUT_S, Worker, check_alive, start_worker, stop_workers
from snapkafka.until import blocking_until

if TYPE_CHECKING:
    from snapkafka.protocol.ledger_state import LedgerState

T = TypeVar("T")

SEND_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.2


@dataclass
class RunningSystem:
    """The workers of the apps under test, and their broker. `storage`: for tables; removed at the end."""

    bootstrap: str
    namespace: str
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    _taken: int = 0

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

        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "log_level": 0, "partitioner": "murmur2_random"}
        )
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
        taken = ops.trigger(
            self.connection,
            self.namespace,
            snapshot_id=name,
            ttl_ms=ttl_ms,
            align=align,
            who="snapkafka.testing",
            wait=True,
        )
        epoch = await_work(taken).epoch
        return Taken(self.connection, self.namespace, self.storage, name, epoch)

    def wait_until(self, what: str, condition: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
        """Wait for a condition.

        Raises:
            TimedOutError: with what was awaited.
        """

        def holds() -> bool:
            self.check_alive()
            return condition()

        blocking_until(holds, timeout_s, what, every_s=POLL_S)

    def check_alive(self) -> None:
        """Raise if a worker has ended by itself, with its last lines."""
        check_alive(self.workers)

    # -- life of the workers --------------------------------------------------------------------------------------

    def _start(self, target: str, number: int, env: Mapping[str, str]) -> None:
        name = f"{target.replace(':', '-')}-{number}"
        arguments = ["snapkafka.testing.run_worker", target, self.bootstrap, str(self.folder / name)]
        here = {"SNAPKAFKA_NAMESPACE": self.namespace}
        self.workers.append(start_worker(target, self.folder / f"{name}.txt", arguments, {**here, **env}))

    def _await_workers(self) -> None:
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
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-system-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        where = bootstrap or stack.enter_context(kafka()).bootstrap
        for count in sorted(set(wanted.values())):
            create_topics(
                where, *(name for name in sorted(wanted) if wanted[name] == count), partitions=count
            )
        running = RunningSystem(where, namespace, folder)
        stack.callback(stop_workers, running.workers)
        for number in range(workers):
            for target in targets:
                running._start(target, number, env or {})
        running._await_workers()
        yield running


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
        raise BadInputError(f"the apps are in different namespaces ({each})", hint="one snapshot is of one")
    return next(iter(namespaces.values()))


def _topics_of(app: Any) -> dict[str, int]:
    """Return the topics that the app's agents read, with the partitions that Faust would give them."""
    channels = [agent.channel for agent in app.agents.values()]
    return {
        str(name): channel.partitions or app.conf.topic_partitions
        for channel in channels
        for name in getattr(channel, "topics", None) or ()
    }
