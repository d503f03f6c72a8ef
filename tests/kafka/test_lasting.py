"""A broker that really deletes: a snapshot is refused when it can be restored no more, and not a moment before."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from confluent_kafka import Producer

from snapkafka.assembly import require_offsets
from snapkafka.assembly.cluster import look
from snapkafka.errors import OffsetsGoneError
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.kafka.cluster.restorable import in_words, restorable
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, SenderEnd
from snapkafka.testing import Broker, EmbeddedKafka
from snapkafka.units import wall_ms
from tests.kafka.waiting import until
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import read_up_to

RETENTION_MS = 10_000
#: It looks for what is to be deleted every 100 ms instead of every 5 min, and from the start on.
EAGER = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
#: Each record is a segment of its own.
SETTINGS = {"retention.ms": str(RETENTION_MS), "segment.ms": "1"}
ORDERS = TopicPartition("orders", 0)
#: `orders` is unread from 1 on; the changelog is deleted much later.
UNREAD = replace(read_up_to("orders", 0, 1, topic_id=""), app="a", low=1, log_end=3)
SENT = SenderEnd(process=2, topic="orders", partition=0, white_end=3, last_seq=1)
LOG_CUT = ChangelogCut(app="a", table="t", topic="log", topic_id="", partition=0, end=1, process=2)
CAPTURED = replace(example().captured, inputs=(UNREAD,), senders=(SENT,), changelogs=(LOG_CUT,), recorded=())


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with EmbeddedKafka(properties=EAGER) as running:
        yield running


def write(kafka: Broker, topic: str, *ages_ms: int) -> int:
    """A record of each age; the time that counted as now."""
    producer, now = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0}), wall_ms()
    for age in ages_ms:
        producer.produce(topic, b"x", b"k", partition=0, timestamp=now - age)
        producer.flush(10)
    return now


async def test_it_lasts_until_the_broker_deletes(kafka: Broker, admin: KafkaTopicAdmin) -> None:
    await admin.create_topic("orders", settings=SETTINGS)
    await admin.create_topic("log", settings={"retention.ms": "60000"})
    write(kafka, "log", 0)
    written_ms = write(kafka, "orders", 6_000, 4_000, 0)  # 0 was read; 1 is the first that is needed
    reported = await restorable(admin, CAPTURED, cut_ms=written_ms)
    assert (reported.how, reported.topic) == ("until", "orders")
    until_ms = written_ms - 4_000 + RETENTION_MS
    assert datetime.fromisoformat(reported.until).timestamp() * 1_000 == pytest.approx(until_ms, abs=1)
    gone_ms: dict[int, int] = {}

    async def both_are_gone() -> bool:
        (start,) = (await admin.log_starts([ORDERS])).values()
        for offset in range(start):
            gone_ms.setdefault(offset, wall_ms())
        view = await look(admin, CAPTURED, isolation="read_uncommitted", age_ms=0)
        if view.log_start(ORDERS) <= 1:
            require_offsets(view)  # as long as it is there, nobody refuses
        return start > 1

    await until(both_are_gone)
    assert gone_ms[0] < until_ms, "what was read goes first, and does not count"
    assert until_ms <= gone_ms[1] <= until_ms + RETENTION_MS / 10
    view = await look(admin, CAPTURED, isolation="read_uncommitted", age_ms=0)
    with pytest.raises(OffsetsGoneError, match=r"orders\[0\]"):
        require_offsets(view)

    assert "orders[0]" in in_words(await restorable(admin, CAPTURED, cut_ms=written_ms), wall_ms())
    await admin.delete_topics("log")

    async def deleted() -> bool:
        found = await restorable(admin, CAPTURED, cut_ms=written_ms)
        return (found.how, found.topic) == ("gone", "log")

    await until(deleted)
