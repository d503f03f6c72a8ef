"""What snapkafka itself costs per event, in CPU time: no broker, no Faust, nothing that comes and goes with a machine.

One event is taken in, writes to a table (its changelog record goes through the producer's buffer) and sends once; the
acknowledgements come a hundred at a time. The same is done without snapkafka; the figure is the difference.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import SimpleNamespace
from typing import Any, Final

from faust.types.tuples import TP, PendingMessage

from snapkafka.config import Config
from snapkafka.drivers.faust.driver import FaustDriver
from snapkafka.drivers.faust.events import Reading
from snapkafka.drivers.faust.outgoing import Outgoing
from snapkafka.protocol.actions import AppendToLedger
from snapkafka.protocol.events import InputGiven, InputsGiven, Joined, LedgerRead
from snapkafka.protocol.records import Hello, InputTopic, TopicPartition
from tests.bench.figures import Figure, figure

ROUNDS: Final = 15
EVENTS: Final = 20_000
BATCH: Final = 100
INPUT: Final = TP("in", 0)


def bench_hot() -> list[Figure]:
    """CPU microseconds of snapkafka per event with a table write and a send."""
    without, ours = [], []
    for _ in range(ROUNDS):
        without.append(asyncio.run(_round(install=False)))
        ours.append(asyncio.run(_round(install=True)) - without[-1])
    return [figure("hot_path_us", ours, "us"), figure("hot_path_without_us", without, "us")]


class _Producer:
    """As Faust's, as far as `Outgoing` knows it; `deliver` acknowledges what was sent."""

    threaded_producer = None

    def __init__(self) -> None:
        self.buffered: deque[Any] = deque()
        self.buffer = SimpleNamespace(put=self.buffered.append)
        cluster = SimpleNamespace(partitions_for_topic=lambda topic: {0})
        self._producer = SimpleNamespace(client=SimpleNamespace(cluster=cluster))
        self._sent: list[asyncio.Future[Any]] = []
        self._loop = asyncio.get_running_loop()

    def key_partition(self, topic: str, key: bytes) -> TP:
        return TP(topic, 0)

    async def send(
        self, topic: str, key: Any, value: Any, partition: Any, timestamp: Any, headers: Any, **_: Any
    ) -> Any:
        self._sent.append(self._loop.create_future())
        return self._sent[-1]

    async def deliver(self) -> None:
        while self.buffered:
            message = self.buffered.popleft().message
            await self.send(*message[:6])
        for offset, future in enumerate(self._sent):
            future.set_result(SimpleNamespace(offset=offset))
        self._sent.clear()
        await asyncio.sleep(0)


def _joined(producer: _Producer) -> FaustDriver:
    """A driver whose process has an id and an input."""
    app = SimpleNamespace(
        conf=SimpleNamespace(processing_guarantee="at_least_once"), _attachments=SimpleNamespace(put=None)
    )
    driver = FaustDriver(app=app, config=Config(namespace="bench"))
    driver.outgoing = Outgoing(driver, producer)
    machine = driver.machine
    hello = Hello(n=1, app="bench", inputs=(InputTopic(topic="in", partitions=1),))
    machine.handle(Joined(hello=hello))
    machine.handle(LedgerRead(offset=0, record=hello))
    given = InputGiven(tp=TopicPartition(*INPUT), agents=("count",), position=0)
    (announced,) = machine.handle(InputsGiven(generation=1, inputs=(given,), changelogs=()))
    assert isinstance(announced, AppendToLedger)
    machine.handle(LedgerRead(offset=1, record=announced.record))
    assert machine.process == 0
    return driver


async def _round(*, install: bool) -> float:
    """CPU microseconds per event."""
    producer = _Producer()
    driver = _joined(producer) if install else None
    reading = Reading("count")
    write = PendingMessage("changelog", b"key", b"value", 0, None, None, None, None, None)
    before = time.process_time()
    for offset in range(EVENTS):
        cause = None
        if driver is not None:
            cause = driver.events.taken_in(reading, INPUT, offset, None)
        producer.buffer.put(SimpleNamespace(message=write))
        await producer.send("out", b"key", b"value", None, None, None)
        if driver is not None:
            driver.events.through_with(reading, INPUT, offset, cause)
        if offset % BATCH == BATCH - 1:
            await producer.deliver()
    seconds = time.process_time() - before
    assert driver is None or not driver.machine.colours.busy, "not all was acknowledged"
    return seconds / EVENTS * 1e6
