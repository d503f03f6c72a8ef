"""The partitions that snapkafka chooses for a plain client are those that librdkafka would choose."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from snapkafka.drivers.plain.partitioner import partitioner_of
from snapkafka.testing import Broker, create_topics

PARTITIONS = 7


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
