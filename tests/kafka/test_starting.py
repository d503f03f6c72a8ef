"""Where a consumer starts with an input of which nothing is committed: settled once, right after the assignment, and
told by the consumer itself, also when the log has grown or been trimmed since (R14)."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition

from snapkafka.drivers.faust.inbound.membership import starts_at
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.kafka.waiting import until

pytestmark = pytest.mark.timeout(120)

BEFORE, SINCE = 5, 3


@pytest.mark.parametrize(
    ("reset", "isolation", "start"),
    [
        ("earliest", "read_uncommitted", 0),
        ("latest", "read_uncommitted", BEFORE + 2),
        ("latest", "read_committed", BEFORE + 1),  # before the open transaction
    ],
)
async def test_r14_where_it_started_is_reported_later_too(
    kafka: Broker, admin: KafkaTopicAdmin, namespace: str, reset: str, isolation: str, start: int
) -> None:
    """The log has grown behind the end and been trimmed at its beginning since, and the consumer has fetched."""
    topic = f"{namespace}-starting"
    create_topics(kafka.bootstrap, topic)
    tp, place = TopicPartition(topic, 0), KafkaPartition(topic, 0)
    async with (
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer,
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic) as other,
    ):
        async with other.transaction():
            for _ in range(BEFORE):
                await other.send_and_wait(topic, b"before")
        await other.begin_transaction()
        await other.send_and_wait(topic, b"open")
        settings = {"auto_offset_reset": reset, "isolation_level": isolation, "enable_auto_commit": False}
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, group_id=topic, **settings)
        async with consumer:
            await asyncio.wait_for(consumer.position(place), 30)
            for _ in range(SINCE):
                await producer.send_and_wait(topic, b"since")
            await until(lambda: (consumer.highwater(place) or 0) > start)
            await admin.delete_records(tp, 2)
            assert await consumer.committed(place) is None
            assert await starts_at(tp, consumer) == start
        await other.abort_transaction()
