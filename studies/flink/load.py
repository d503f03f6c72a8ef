"""The load of a turn, and how long each of its events was in flight."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Final

from aiokafka.partitioner import murmur2
from confluent_kafka import Consumer, Producer, TopicPartition

from snapkafka.until import Tries

from .settings import LIMIT_S, PARTITIONS

#: Records that a producer holds before it waits for the broker.
QUEUED: Final = 50_000


def key_of(number: int) -> bytes:
    return b"key-%d" % number


@cache
def partition_of(key: bytes) -> int:
    """Return the partition of a key, as Kafka's own clients choose it."""
    return int((murmur2(key) & 0x7FFFFFFF) % PARTITIONS)


def fill(bootstrap: str, topic: str, keys: int, *, changelog: bool) -> None:
    """Append a record for each key: an event whose time is 0, or a count of 1."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    for number in range(keys):
        key = key_of(number)
        stored, value = (b'"%b"' % key, b"1") if changelog else (key, b"0")
        producer.produce(topic, value, stored, partition_of(key))
        while len(producer) > QUEUED:
            producer.poll(0.1)
    assert producer.flush(LIMIT_S) == 0, "the broker did not take all records"


class Offered(threading.Thread):
    """Events at an even rate, each with the time at which it was sent."""

    def __init__(self, bootstrap: str, topic: str, *, keys: int, rate: float, seconds: float) -> None:
        super().__init__()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
        self._topic, self._keys, self._rate = topic, keys, rate
        self.sent = int(rate * seconds)

    def run(self) -> None:
        """Send them."""
        source, began = random.Random(1985), time.monotonic()
        for number in range(self.sent):
            time.sleep(max(0.0, began + number / self._rate - time.monotonic()))
            key = key_of(source.randrange(self._keys))
            self._producer.produce(self._topic, b"%d" % (time.time_ns() // 1_000), key, partition_of(key))
            self._producer.poll(0)
        assert self._producer.flush(LIMIT_S) == 0, "the broker did not take all events"


class Arrived:
    """The reader of what comes out of a pipeline, by the broker's clock."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "study",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])

    def next(self, count: int) -> list[float]:
        """Return the milliseconds that each of the next events was in flight."""
        found: list[float] = []
        for _ in Tries(LIMIT_S, 0.0):
            for message in self._consumer.consume(10_000, 0.2):
                assert message.error() is None, message.error()
                value = message.value()
                if value is not None:
                    found.append(message.timestamp()[1] - int(value) / 1_000)
            if len(found) >= count:
                assert len(found) == count, f"{len(found)} events came out, and {count} went in"
                return found
        raise TimeoutError(f"{len(found)} of {count} events came out")

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


def share(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
