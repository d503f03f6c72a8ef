"""What snapkafka itself costs per event, in CPU time: no broker, nothing that comes and goes with a machine.

One event is taken in, writes to a table (its changelog record is put into the producer's buffer) and sends once; the
buffer is emptied and the acknowledgements come a hundred at a time. The same is done without snapkafka, by the
producers of Faust and aiokafka as they are; the figure is the difference, below 0 where more is saved than spent. What
Faust does with a record on its way in is not in it.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, Final

import faust
from aiokafka.structs import PartitionMetadata
from faust.types.tuples import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers.faust.inbound.running_events import StreamRecords
from snapkafka.protocol import (
    AppendToLedger,
    AssignedInput,
    Hello,
    InputsAssigned,
    InputTopic,
    Joined,
    LedgerRead,
    TopicPartition,
)
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


class _Out:
    """The producers of Faust and aiokafka, with nobody behind them but `deliver`, which acknowledges what was sent."""

    def __init__(self) -> None:
        app: Any = faust.App("bench", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
        app.finalize()
        self.producer: Any = app.producer
        self.changelog: Any = app.topic("changelog", key_serializer="raw", value_serializer="raw")
        self.producer._started.set()
        self.producer._producer = client = self.producer._new_producer()
        client._closed = True  # nobody need close what was never started
        for topic in ("out", "changelog"):
            client.client.cluster._partitions[topic] = {0: PartitionMetadata(topic, 0, 0, (0,), (0,), 0)}
        self._batches = client._message_accumulator

    async def deliver(self) -> None:
        buffer = self.producer.buffer
        while not buffer.pending.empty():  # as Faust's task does
            await buffer._send_pending(await buffer.pending.get())
        for tp in list(self._batches._batches):
            while self._batches._batches.get(tp):
                self._batches._pop_batch(tp).done(0)
        await asyncio.sleep(0)


def _joined(producer: Any) -> FaustDriver:
    """A driver whose process has an id and an input."""
    conf = SimpleNamespace(
        processing_guarantee="at_least_once",
        broker=[],
        broker_consumer=[],
        broker_producer=[],
        stream_publish_on_commit=False,
        producer_threaded=False,
    )
    app = SimpleNamespace(conf=conf)
    driver = FaustDriver(app=app, config=Config(namespace="bench"))
    driver.producer_made(producer)
    machine = driver.machine
    hello = Hello(n=1, app="bench", inputs=(InputTopic(topic="in", partitions=1),))
    machine.handle(Joined(hello=hello))
    machine.handle(LedgerRead(offset=0, record=hello))
    given = AssignedInput(tp=TopicPartition(*INPUT), agents=("count",), position=0)
    (announced,) = machine.handle(InputsAssigned(generation=1, inputs=(given,), changelogs=()))
    assert isinstance(announced, AppendToLedger)
    machine.handle(LedgerRead(offset=1, record=announced.record))
    assert machine.process == 0
    return driver


async def _round(*, install: bool) -> float:
    """CPU microseconds per event."""
    out = _Out()
    producer = out.producer
    driver = _joined(producer) if install else None
    reading = StreamRecords("count")
    before = time.process_time()
    for offset in range(EVENTS):
        cause = None
        if driver is not None:
            cause = driver.events.taken_in(reading, INPUT, offset, None)
        out.changelog.send_soon(key=b"key", value=b"value", partition=0)
        await producer.send("out", b"key", b"value", None, None, None)
        if driver is not None:
            driver.events.through_with(reading, INPUT, offset, cause)
        if offset % BATCH == BATCH - 1:
            await out.deliver()
    seconds = time.process_time() - before
    assert driver is None or not driver.machine.colours.busy, "not all was acknowledged"
    return seconds / EVENTS * 1e6
