"""An observer of a running system: it follows the ledger and keeps up the load, both beside the caller's own thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from snapkafka.demo import Load
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import LedgerRecord, LedgerState
from snapkafka.testing import START_TIMEOUT_S, RunningSystem, settled, wait_until

T = TypeVar("T")

CALL_TIMEOUT_S: Final = 60.0
#: The name of its clients in the broker's logs.
OBSERVER: Final = "snapkafka-observer"


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
        self.call(self.follow())

    async def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def follow(self) -> None:
        """Begin to read the ledger from its start, into `state`."""
        await self._begin(self._follow(self.state))

    async def _follow(self, state: LedgerState) -> None:
        async for entry in self.ledger.read(0):
            self.times[entry.offset], self.records[entry.offset] = entry.timestamp_ms, entry.record
            state.apply(entry.offset, entry.record)

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

    # -- what one waits for -----------------------------------------------------------------------------------

    def wait_for_workers(self, system: RunningSystem) -> None:
        """Wait until every worker has sent `Hello` and every input of every app has an owner among the latest of
        them."""
        wait_until(
            f"the {len(system.workers)} workers to join and to have their partitions",
            lambda: settled(self.state, len(system.workers)),
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
