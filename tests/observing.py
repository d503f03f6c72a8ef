"""An observer of a running system: it follows the ledger and keeps up the load, both beside the caller's own thread."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from snapkafka.demo import Load
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin, compose_trigger
from snapkafka.ops.snapshots import REST_S
from snapkafka.protocol import LedgerState, SnapshotView
from snapkafka.protocol.records import LedgerRecord
from snapkafka.testing import START_TIMEOUT_S, RunningSystem, settled, wait_until

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 60.0
#: The name of its clients in the broker's logs.
OBSERVER: Final = "snapkafka-observer"


class Place(NamedTuple):
    """Where the services of a test run: their broker, their namespace, and a folder for their files."""

    bootstrap: str
    namespace: str
    folder: Path


class Observer:
    """A follower of a ledger in a thread of its own; `state` and `times` are what it has read so far."""

    def __init__(self, bootstrap: str, namespace: str) -> None:
        self.connection = Connection(bootstrap=bootstrap, client_id=OBSERVER)
        self.namespace = namespace
        self.state = LedgerState()
        self.times: dict[int, int] = {}  # ledger offset -> milliseconds, the broker's clock
        self.records: dict[int, LedgerRecord | None] = {}
        self.ledger = KafkaLedger(self.connection, namespace)
        self.admin = KafkaTopicAdmin(self.connection)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="observer", daemon=True)
        self._tasks: list[asyncio.Task[Any]] = []

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine beside the observation and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(CALL_TIMEOUT_S)

    def start(self) -> None:
        self._thread.start()
        self.call(self.ledger.open())
        self.call(self._begin(self._follow()))

    async def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def _follow(self) -> None:
        """Read the ledger from its start, into `state`."""
        async for entry in self.ledger.read(0, rest=partial(asyncio.sleep, REST_S)):
            self.times[entry.offset], self.records[entry.offset] = entry.timestamp_ms, entry.record
            self.state.apply(entry.offset, entry.record)

    def start_load(self, load: Load) -> None:
        """Request transfers from now on, until `stop_load` or the end."""
        self.call(self._begin(load.run()))

    def stop_load(self) -> None:
        """Request no more; transfers in flight continue."""
        self.call(self._cancel(self._tasks.pop()))

    async def _cancel(self, *tasks: asyncio.Task[Any]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self.call(self._end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CALL_TIMEOUT_S)
        self.loop.close()

    async def _end(self) -> None:
        await self._cancel(*self._tasks)
        await self.ledger.close()
        await self.admin.close()

    # -- snapshots ----------------------------------------------------------------------------------------------

    def ask(self, name: str, **options: Any) -> int:
        """Append a trigger, as from outside; its epoch. `options` are those of `compose_trigger`."""
        work = compose_trigger(self.admin, self.state, snapshot_id=name, **options)
        return self.call(self.ledger.append(self.call(work))) + 1

    def decided(
        self, epoch: int, timeout_s: float = 60, meanwhile: Callable[[], None] = lambda: None, **waits: Any
    ) -> SnapshotView:
        """Wait until a snapshot is decided, and do something all the while; `waits` as of `wait_until`."""

        def is_decided() -> bool:
            meanwhile()
            return epoch in self.state.snapshots and not self.state.snapshots[epoch].open

        what = f"the snapshot of epoch {epoch}"
        wait_until(what, is_decided, timeout_s=timeout_s, period_s=0.02, **waits)
        return self.state.snapshots[epoch]

    def take(self, name: str, *, timeout_s: float = 0, **options: Any) -> SnapshotView:
        """Trigger and wait until the snapshot is decided."""
        patience_s = timeout_s or options.get("ttl_ms", 0) / 1_000 + 30
        return self.decided(self.ask(name, **options), patience_s)

    # -- what one waits for -----------------------------------------------------------------------------------

    def wait_for_workers(self, system: RunningSystem, *, others: int = 0) -> None:
        """Wait until every worker, and so many other processes, have sent `Hello` and every input of every app has an
        owner among the latest of them."""
        count = len(system.workers) + others
        wait_until(
            f"{count} processes to join and to have their partitions",
            lambda: settled(self.state, count),
            timeout_s=START_TIMEOUT_S,
            system=system,
        )


@contextlib.contextmanager
def observing(bootstrap: str, namespace: str) -> Iterator[Observer]:
    """Provide an observer for the length of a block."""
    observer = Observer(bootstrap, namespace)
    observer.start()
    try:
        yield observer
    finally:
        observer.stop()
