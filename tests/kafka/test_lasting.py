"""A broker that really deletes: a snapshot is refused when it can be restored no more, and not a moment before."""

import dataclasses
import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from confluent_kafka import Producer

from snapkafka.assembly import require_offsets
from snapkafka.assembly.cluster import look
from snapkafka.errors import OffsetsGoneError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster.restorable import in_words, restorable
from snapkafka.protocol import Captured, ChangelogCut, SenderEnd, TopicPartition
from snapkafka.testing import EmbeddedKafka
from tests.kafka.waiting import until
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import read_up_to

RETENTION_MS = 10_000
#: It looks for what is to be deleted every 100 ms instead of every 5 min, and from the start on.
EAGER = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
#: Each record is a segment of its own.
SETTINGS = {"retention.ms": str(RETENTION_MS), "segment.ms": "1"}


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(properties=EAGER) as running:
        yield running


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def write(broker: EmbeddedKafka, topic: str, *ages_ms: int) -> int:
    """A record of each age; the time that counted as now."""
    producer, now = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}), now_ms()
    for age in ages_ms:
        producer.produce(topic, b"x", b"k", partition=0, timestamp=now - age)
        producer.flush(10)
    return now


def captured(position: int, end: int) -> Captured:
    """`orders` is unread from `position` on; a changelog that is deleted much later."""
    source = dataclasses.replace(
        read_up_to("orders", 0, position, topic_id=""), app="a", low=position, log_end=end
    )
    sender = SenderEnd(process=2, topic="orders", partition=0, white_end=end, last_seq=1)
    changelog = ChangelogCut(app="a", table="t", topic="log", topic_id="", partition=0, end=1, process=2)
    return dataclasses.replace(
        example().captured, inputs=(source,), senders=(sender,), changelogs=(changelog,), recorded=()
    )


async def test_until_when_it_lasts_is_when_the_broker_deletes_within_a_tenth(broker: EmbeddedKafka) -> None:
    connection = Connection(bootstrap=broker.bootstrap)
    admin = KafkaTopicAdmin(connection)
    await admin.create_topic("orders", settings=SETTINGS)
    await admin.create_topic("log", settings={"retention.ms": "60000"})
    write(broker, "log", 0)
    written_ms = write(broker, "orders", 6_000, 4_000, 0)  # 0 was read; 1 is the first that is needed
    snapshot = captured(1, 3)
    reported = await restorable(admin, snapshot, cut_ms=written_ms, now=now_ms)
    assert (reported.how, reported.topic) == ("until", "orders")
    until_ms = written_ms - 4_000 + RETENTION_MS
    assert datetime.fromisoformat(reported.until).timestamp() * 1_000 == pytest.approx(until_ms, abs=1)

    gone_ms: dict[int, int] = {}

    async def both_are_gone() -> bool:
        (start,) = (await admin.log_starts([TopicPartition("orders", 0)])).values()
        for offset in range(start):
            gone_ms.setdefault(offset, now_ms())
        view = await look(admin, snapshot, isolation="read_uncommitted")
        if view.log_start(TopicPartition("orders", 0)) <= 1:
            require_offsets(view)  # as long as it is there, nobody refuses
        return start > 1

    await until(both_are_gone)
    assert gone_ms[0] < until_ms, "what was read goes first, and does not count"
    assert until_ms <= gone_ms[1] <= until_ms + RETENTION_MS / 10

    view = await look(admin, snapshot, isolation="read_uncommitted")
    with pytest.raises(OffsetsGoneError, match=r"orders\[0\]"):
        require_offsets(view)
    again = await restorable(admin, snapshot, cut_ms=written_ms, now=now_ms)
    assert "orders[0]" in in_words(again, now_ms())
    await admin.close()
