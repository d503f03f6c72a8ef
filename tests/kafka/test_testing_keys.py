"""`snapkafka.testing` puts a key where a Faust service puts it, so that a table has one row for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from snapkafka.testing import RunningSystem, create_topics

if TYPE_CHECKING:
    from snapkafka.testing import Broker


KEYS = [f"customer-{n}" for n in range(40)]


async def test_a_key_has_the_partition_that_a_service_would_choose(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    topic = f"{namespace}-orders"
    create_topics(kafka.bootstrap, topic, partitions=7)
    for key in KEYS:
        RunningSystem(kafka.bootstrap, namespace, tmp_path).send(topic, 1, key=key)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for key in KEYS:
            await producer.send_and_wait(topic, b"1", key=key.encode())
    found: dict[bytes, set[int]] = {}
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        for _ in range(2 * len(KEYS)):
            record = await consumer.getone()
            found.setdefault(record.key or b"", set()).add(record.partition)
    assert len(found) == len(KEYS)
    assert {key: places for key, places in found.items() if len(places) > 1} == {}
