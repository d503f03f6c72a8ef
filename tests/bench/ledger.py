"""What a worker that reads a long ledger at its start does to its host: how long the loop stands still, and how long it
takes until the worker takes part.

The worker is the real one from the reader on; its records come from memory, so the figures are CPU time of the loop's
thread, which does not depend on what else the machine does.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest import mock

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.kafka.ledger import reader
from snapkafka.protocol import (
    AssignedInput,
    Hello,
    InputsAssigned,
    InputTopic,
    LedgerRecord,
    TopicPartition,
    take_checkpoint,
)
from snapkafka.wire import encode
from snapkafka.wire.codec import load
from tests.bench.figures import Figure, figure
from tests.bench.ledgers import records
from tests.worlds.fakes import FakeAdmin

ROUNDS: Final = 3
RECORDS: Final = int(os.environ.get("BENCH_LEDGER", "100000"))
#: Of these a checkpoint keeps all: those of the last hour.
RECENT: Final = 1_000
#: So many objects the host has that a full garbage collection walks over: the rows of a table, for one.
HOST_OBJECTS: Final = 1_000_000
LIMIT_S: Final = 600.0
#: Between two looks of the probe.
LOOK_S: Final = 0.001


def bench_ledger() -> list[Figure]:
    """How long a loop stands still while a worker reads 100,000 records at its start, in CPU time."""
    ledger = records(RECORDS)
    data = dict(enumerate(map(encode, ledger)))
    upto = RECORDS - RECENT
    chunks = take_checkpoint(enumerate(ledger[:upto]), first_n=1)
    short = {at: data[at] for at in range(upto, RECORDS)}
    short |= dict(enumerate(map(encode, chunks), RECORDS))
    ledger.clear()
    chunks.clear()
    runs = [asyncio.run(_start(data)) for _ in range(ROUNDS)]
    shorter = [asyncio.run(_start(short)) for _ in range(ROUNDS)]
    return [
        figure("ledger_read_stall_ms", [run.stall_cpu_ms for run in runs], "ms", of=max, bar=20.0),
        figure("ledger_checkpoint_stall_ms", [run.stall_cpu_ms for run in shorter], "ms", of=max, bar=20.0),
        figure("ledger_read_s", [run.cpu_s for run in runs], "s"),
        figure("ledger_checkpoint_read_s", [run.cpu_s for run in shorter], "s"),
    ]


class Run(NamedTuple):
    """What a host saw of a start, in CPU time; `stall`: the longest time between two looks."""

    stall_cpu_ms: float
    cpu_s: float


async def _start(data: dict[int, bytes]) -> Run:
    """Start a worker in a host with many objects, until it takes part."""
    await asyncio.to_thread(load)
    with _host():
        app = SimpleNamespace(conf=SimpleNamespace(processing_guarantee="at_least_once"))
        driver: Any = FaustDriver(app=app, config=Config(namespace="bench"))
        driver.recorder = SimpleNamespace(take=driver.append)
        driver.replies = driver.tables = SimpleNamespace(topics=set(), forget_epochs=list)
        hello = Hello(n=0, app="shop", inputs=(InputTopic(topic="in", partitions=1),))
        given = AssignedInput(tp=TopicPartition("in", 0), agents=("take",), position=0)

        opened = MemoryLedger(data)

        async def work() -> None:
            await driver.start(opened, FakeAdmin())
            await driver.join(hello)
            driver.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
            async with asyncio.timeout(LIMIT_S):
                while not driver.participating:
                    await driver.waiting.changed()

        async with _probed() as run:
            await work()
        for task in list(driver._tasks):
            task.cancel()
        await asyncio.gather(*driver._tasks, return_exceptions=True)
        await driver.ledger.close()
    return run()


@contextmanager
def _host() -> Iterator[None]:
    """The objects of a host, as old as those of one that has run for a while."""
    rows = [[number] for number in range(HOST_OBJECTS)]
    gc.collect()
    yield
    rows.clear()


@asynccontextmanager
async def _probed() -> AsyncIterator[Callable[[], Run]]:
    """Look at the loop until the block ends; gives what was seen, from then on."""
    stalls, took = [0.0], 0.0

    async def look() -> None:
        while True:
            own = time.thread_time()
            await asyncio.sleep(LOOK_S)
            stalls.append(time.thread_time() - own)

    looking = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    began = time.thread_time()
    try:
        yield lambda: Run(max(stalls) * 1e3, took)
    finally:
        took = time.thread_time() - began
        looking.cancel()


class MemoryLedger(KafkaLedger):
    """A ledger whose records are in memory, by their offsets; the reader, and all behind it, are the real ones."""

    def __init__(self, data: dict[int, bytes]) -> None:
        super().__init__(Connection(bootstrap="127.0.0.1:1"), "bench")
        self._data = dict(data)
        self._patch = mock.patch.object(reader, "AIOKafkaConsumer", self._consumer)
        self._patch.start()

    def _consumer(self, **_: Any) -> _Consumer:
        return _Consumer(self._data)

    async def open(self, *, create: bool = True) -> None:
        self._topic_id = "0" * 32

    async def start(self) -> int:
        return next(iter(self._data))

    async def end(self) -> int:
        return next(reversed(self._data)) + 1

    async def append(self, record: LedgerRecord) -> int:
        at = await self.end()
        self._data[at] = encode(record)
        return at

    async def _is_same(self) -> bool:
        return True

    async def close(self) -> None:
        self._patch.stop()


class _Consumer:
    """The part of aiokafka's consumer that the reader uses."""

    def __init__(self, data: dict[int, bytes]) -> None:
        self._data = data
        self._fetcher = SimpleNamespace(_records={})
        state = SimpleNamespace(position=0)
        assignment = SimpleNamespace(state_value=lambda _: state)
        self._subscription = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Disconnect."""

    def assign(self, partitions: list[Any]) -> None:
        """There is but one."""

    def seek(self, partition: Any, offset: int) -> None:
        self._at = offset

    def pause(self, partition: Any) -> None:
        """Fetch nothing: all is at hand."""

    def resume(self, partition: Any) -> None:
        """Fetch again."""

    async def getmany(self, *partitions: Any, timeout_ms: int, max_records: int) -> dict[Any, list[Any]]:
        if self._at not in self._data:
            await asyncio.sleep(0.01)  # the broker answers as soon as there is something
        found = [
            SimpleNamespace(offset=at, value=self._data[at], timestamp=1_000_000 + at, headers=())
            for at in range(self._at, self._at + max_records)
            if at in self._data
        ]
        self._at += len(found)
        return {partitions[0]: found} if found else {}
