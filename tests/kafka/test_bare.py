"""R15 on a real broker: what it refuses for its size with our header arrives without, in its place, also compressed, of
an idempotent producer, and in a transaction."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import faust
import pytest
from aiokafka import AIOKafkaConsumer

from snapkafka.testing import create_topics
from snapkafka.wire import headers as wire
from tests.unit.drivers.sending import Driver

if TYPE_CHECKING:
    from snapkafka.testing import Broker


LIMIT = 2_000
#: With these a batch of one fits by less than our header takes.
FITS = 1_915


class Sending:
    """Faust's producer, started, with our way out of it and a ledger that is a list."""

    def __init__(self, kafka: Broker, topic: str, **settings: Any) -> None:
        self.bootstrap, self.topic = kafka.bootstrap, topic
        self.app: Any = faust.App(
            topic, broker=f"kafka://{kafka.bootstrap}", store="memory://", web_enabled=False, **settings
        )
        self.app.finalize()
        self.driver = Driver(self.app.producer)

    async def __aenter__(self) -> Sending:
        await self.app.producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.producer.stop()

    async def send(self, value: bytes, **more: Any) -> Any:
        given = {"key": b"k", "partition": 0, "timestamp": None, "headers": None, **more}
        return await self.driver.outgoing.send(self.topic, value=value, **given)

    async def log(self, count: int) -> list[Any]:
        """The records of the topic, and whether each bears our header."""
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            async with asyncio.timeout(15):
                return [await consumer.getone() for _ in range(count)]
        finally:
            await consumer.stop()


def stamped(records: list[Any]) -> list[bool]:
    return [wire.find(list(record.headers)) is not None for record in records]


@pytest.fixture
def topic(kafka: Broker, namespace: str) -> str:
    create_topics(kafka.bootstrap, f"{namespace}-bare", config={"max.message.bytes": str(LIMIT)})
    return f"{namespace}-bare"


@pytest.mark.parametrize(
    ("settings", "fits"),
    [({}, FITS), ({"producer_compression_type": "gzip"}, FITS - 25)],
    ids=["plain", "gzip"],
)
async def test_r15_what_the_broker_refuses_with_our_header_arrives_without_in_its_place(
    kafka: Broker, topic: str, settings: dict[str, Any], fits: int
) -> None:
    values = [random.Random(n).randbytes(fits if n % 2 else 10) for n in range(20)]
    async with Sending(kafka, topic, producer_max_batch_size=LIMIT, **settings) as sending:
        futures = [await sending.send(value) for value in values]
        placed = [(await future).offset for future in futures]
        assert placed == list(range(20))
        records = await sending.log(20)
        assert [record.value for record in records] == values
        bears = stamped(records)
        assert not all(bears)
        assert all(b for b, value in zip(bears, values, strict=True) if len(value) < 100)
        assert not sending.driver.machine.colours.busy
        assert sending.driver.metrics.bare == bears.count(False)


@pytest.mark.parametrize(
    ("batch", "sizes"),
    [(LIMIT, [10, FITS, 10, FITS, 10]), (16_384, [n * 97 % 1_500 for n in range(150)])],
    ids=["refused alone", "refused in a burst"],
)
async def test_r15_in_a_transaction_too(kafka: Broker, topic: str, batch: int, sizes: list[int]) -> None:
    """Its producer numbers its records: one that is sent again has to bear the number that it had."""
    values = [random.Random(n).randbytes(size) for n, size in enumerate(sizes)]
    async with Sending(kafka, topic, producer_max_batch_size=batch) as sending:
        client = sending.app.producer._new_producer(transactional_id=f"{topic}-tx")
        await client.start()
        sending.app.producer._transaction_producers[f"{topic}-tx"] = client
        sending.app.producer._trn_locks[f"{topic}-tx"] = asyncio.Lock()
        try:
            await client.begin_transaction()
            futures = [await sending.send(value, transactional_id=f"{topic}-tx") for value in values]
            placed = [(await future).offset for future in futures]
            await client.commit_transaction()
        finally:
            await client.stop()
        assert placed == list(range(len(values)))
        records = await sending.log(len(values))
        assert [record.value for record in records] == values
        assert stamped(records) == [len(value) < FITS for value in values]
        assert not sending.driver.machine.colours.busy
