"""What is told to librdkafka, and what it does: where keys go, and records that a participant puts back (R16)."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from snapkafka.config import Config
from snapkafka.drivers import Consumer, PlainDriver
from snapkafka.drivers.plain.confluent_clients import partitioner_of
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition as OurPartition
from snapkafka.testing import Broker, RunningSystem, create_topics
from snapkafka.until import blocking_until
from tests.features.harness import read_topics

pytestmark = pytest.mark.timeout(120)

PARTITIONS = 7
KEYS = [f"customer-{n}" for n in range(40)]


@pytest.mark.parametrize("name", ["consistent", "consistent_random", "murmur2", "murmur2_random"])
def test_a_key_goes_where_librdkafka_would_send_it(kafka: Broker, namespace: str, name: str) -> None:
    topic = f"{namespace}-{name}"
    create_topics(kafka.bootstrap, topic, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": name, "linger.ms": 5})
    found: dict[bytes, int] = {}
    for number in range(200):
        key = b"key-%d" % number
        producer.produce(
            topic,
            b"",
            key,
            on_delivery=lambda error, message, key=key: found.update({key: message.partition()}),
        )
    assert producer.flush(30) == 0
    chosen = partitioner_of({"partitioner": name})
    assert found == {key: chosen(key, PARTITIONS) for key in found} and len(found) == 200


def test_a_key_has_the_partition_that_a_service_would_choose(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    topic, chosen = f"{namespace}-orders", partitioner_of({"partitioner": "murmur2"})
    create_topics(kafka.bootstrap, topic, partitions=PARTITIONS)
    for key in KEYS:
        RunningSystem(kafka.bootstrap, namespace, tmp_path).send(topic, 1, key=key)
    (records,) = read_topics(kafka.bootstrap, topic).values()
    found = {record.key: record.partition for record in records}
    assert found == {key.encode(): chosen(key.encode(), PARTITIONS) for key in KEYS}


def read(consumer: Consumer) -> Any:
    return blocking_until(lambda: consumer.plainly(0.2), 30, "a record")


@pytest.mark.parametrize("seek", [False, True])
def test_r16_a_record_that_is_put_back_is_read_again_and_committed_by_nobody(
    kafka: Broker, namespace: str, seek: bool
) -> None:
    """`seek`: the loop seeks meanwhile; its word is the last one."""
    create_topics(kafka.bootstrap, namespace, partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(10):
        producer.produce(namespace, str(number))
    assert producer.flush(30) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": namespace,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    held = PlainDriver(Config(namespace=namespace), Connection(bootstrap=kafka.bootstrap))
    consumer.host = held
    tp, here = OurPartition(namespace, 0), TopicPartition(namespace, 0)
    consumer.subscribe([namespace])
    try:
        assert [read(consumer).offset() for _ in range(5)] == [0, 1, 2, 3, 4]
        held.hold(tp)
        consumer.put_back(tp, 4)
        assert [consumer.plainly(0.02) for _ in range(20)] == [None] * 20
        assert [found.offset for found in consumer.position([here])] == [4]
        consumer.commit(asynchronous=False)
        assert [found.offset for found in consumer.committed([here], 10)] == [4]
        if seek:
            consumer.seek(TopicPartition(namespace, 0, 2))
        held.let_go()
        assert read(consumer).offset() == (2 if seek else 4)
        assert read(consumer).offset() == (3 if seek else 5)
    finally:
        consumer.host = None
        consumer.close()
