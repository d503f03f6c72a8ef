"""Real producers of aiokafka with a broker in memory, and a process that has joined and stamps what they send."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import faust

from snapkafka.config import Config
from snapkafka.drivers import AppliedRestores
from snapkafka.drivers.aio_client import AioClient, send_markers
from snapkafka.drivers.faust.outbound.producer import OutgoingRecords
from snapkafka.drivers.sends import Sends
from snapkafka.protocol import Cause, SendMarkers
from tests.unit.drivers.listed import Listed
from tests.worlds.memory_broker import LEDGER, PARTITIONS, THERE, Broker

__all__ = ["PARTITIONS", "THERE", "Broker", "Driver", "Faust"]


class Driver(Listed):
    """The host of what stamps; it has joined."""

    def __init__(self) -> None:
        conf = SimpleNamespace(processing_guarantee="at_least_once", id="p")
        super().__init__(Config(namespace="n", cause=True), SimpleNamespace(conf=conf))
        self.ledger_id = LEDGER
        self.cause: Cause | None = None
        #: Of a marker's partition and epoch, the seq it is due before.
        self.due: dict[tuple[Any, int], int] = {}
        self.restored = AppliedRestores(self)  # type: ignore[arg-type]
        self.sends = Sends(self, lambda: self.cause)
        self.client: AioClient | None = None
        self.joins("p")

    def send_markers(self, action: SendMarkers) -> None:
        for tp in action.tps:
            self.due[tp, action.epoch] = self.machine.colours.sent[tp].next_seq
        send_markers(self.sends, lambda: self.client, action)

    def stand_down(self, what: str, error: Exception) -> None:
        """What fails here fails the test."""
        raise AssertionError(what) from error

    def snapshot(self, name: str = "now", **more: Any) -> int:
        return super().snapshot(name, marker_topics=("t",), **more)

    async def settle(self) -> None:
        await asyncio.gather(*self._tasks)
        for _ in range(8):
            await asyncio.sleep(0)


class Faust:
    """An app whose producer has started, as far as it can tell; `driver`: it stamps."""

    def __init__(self, broker: Broker, driver: Driver | None, **settings: Any) -> None:
        self.broker = broker
        self.app: Any = faust.App(
            "a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False, **settings
        )
        self.app.finalize()
        self.producer = self.app.producer
        self.buffer = self.producer.buffer
        self.producer._started.set()
        self.outgoing: Any = None
        if driver is not None:
            driver.app = self.app
            self.outgoing = OutgoingRecords(driver, self.producer)  # type: ignore[arg-type]
        self.client = self.connect()
        if driver is not None:
            driver.client = self.outgoing.client()
        self.topic = self.app.topic("t", value_serializer="raw", key_serializer="raw")

    def connect(self) -> Any:
        """Make aiokafka's producer, as Faust does at its start."""
        self.producer._producer = self.broker.connect(self.producer._new_producer())
        return self.producer._producer

    def soon(self, value: bytes = b"v", partition: int | None = 0, **more: Any) -> Any:
        return self.topic.send_soon(key=b"k", value=value, partition=partition, **more)

    async def send(self, value: bytes | None = b"v", partition: int | None = 0, **more: Any) -> Any:
        given = {"key": b"k", "timestamp": None, "headers": None, **more}
        return await self.producer.send("t", value=value, partition=partition, **given)

    async def emptying(self) -> None:
        """As Faust's task does it, until nothing waits there."""
        while self.buffer.pending.qsize():
            await self.buffer._send_pending(self.buffer.pending.get_nowait())
