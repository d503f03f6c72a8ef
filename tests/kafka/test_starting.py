"""Where a consumer starts with an input of which nothing is committed: settled once, right after the assignment, and
told by the consumer itself, also when the log has grown or been trimmed since (R14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition

from snapkafka.drivers.faust.inbound.membership import committed, starts_at
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics

pytestmark = pytest.mark.timeout(120)

BEFORE, SINCE = 5, 3


@asynccontextmanager
async def assigned(kafka: Broker, topic: str, reset: str, isolation: str) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer that has settled where to start, and has fetched what came since, as Faust's has in a recovery."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        auto_offset_reset=reset,
        isolation_level=isolation,
    )
    async with consumer:
        (tp,) = consumer.assignment()
        await asyncio.wait_for(consumer.position(tp), 30)
        yield consumer


async def fetched(consumer: AIOKafkaConsumer, start: int) -> None:
    """The first records lie in the consumer, and nobody was handed any of them."""
    (tp,) = consumer.assignment()
    for _ in range(200):
        if (consumer.highwater(tp) or 0) > start:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nothing was fetched")


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", BEFORE)])
async def test_r14_where_it_started_is_reported_later_too(
    kafka: Broker, namespace: str, reset: str, start: int
) -> None:
    """The log has grown behind the end and been trimmed at its beginning since."""
    topic = f"{namespace}-starting"
    create_topics(kafka.bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for _ in range(BEFORE):
            await producer.send_and_wait(topic, b"before")
        async with assigned(kafka, topic, reset, "read_uncommitted") as consumer:
            for _ in range(SINCE):
                await producer.send_and_wait(topic, b"since")
            await fetched(consumer, start)
            admin = KafkaTopicAdmin(Connection(bootstrap=kafka.bootstrap))
            await admin.delete_records(tp, 2)
            await admin.close()
            assert await committed(consumer, tp) is None
            assert await starts_at(consumer, tp) == start


async def test_r14_who_reads_what_is_committed_starts_before_an_open_transaction(
    kafka: Broker, namespace: str
) -> None:
    topic = f"{namespace}-starting"
    create_topics(kafka.bootstrap, topic)
    tp = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic) as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"committed")
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open")
        async with assigned(kafka, topic, "latest", "read_committed") as consumer:
            assert await starts_at(consumer, tp) == 2, "one record and what ends its transaction"
            assert (await consumer.end_offsets([KafkaPartition(*tp)]))[KafkaPartition(*tp)] == 2
        await producer.abort_transaction()
