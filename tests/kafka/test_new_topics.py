"""A new topic whose settings would refuse or delete what is restored, on a real broker."""

from __future__ import annotations

import time

import pytest

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord, KafkaTopicAdmin
from snapkafka.restore import Carried
from snapkafka.restore.topics import Contents
from snapkafka.testing import Broker, create_topics
from tests.altering import alter_settings
from tests.unit.base.test_manifest import example

pytestmark = pytest.mark.timeout(120)

DAY = 86_400_000
HARMFUL = {
    "retention.ms": "1000",
    "retention.bytes": "10",
    "max.message.bytes": "500",
    "message.timestamp.before.max.ms": "1000",
}


async def test_what_is_changed_lets_a_new_topic_take_and_keep_old_and_large_records_and_those_ahead(
    kafka: Broker, topic_prefix: str
) -> None:
    """Each of them alone is refused before; of `after.max.ms` it is the broker's default that refuses."""
    topic, now_ms = f"{topic_prefix}new", int(time.time() * 1000)
    create_topics(kafka.bootstrap, topic, partitions=1, config=HARMFUL)
    connection = Connection(bootstrap=kafka.bootstrap)
    records = [
        KafkaRecord(topic, 0, -1, b"old", b"v", (), now_ms - 30 * DAY),
        KafkaRecord(topic, 0, -1, b"large", b"v" * 2_000, (), now_ms),
        KafkaRecord(topic, 0, -1, b"ahead", b"v", (), now_ms + DAY),
    ]
    for record in records:
        with pytest.raises(LedgerUnusableError):
            KafkaBulk(connection).append([record])
    carried = Carried(
        records=3, bytes=3_000, oldest_ms=now_ms - 30 * DAY, youngest_ms=now_ms + DAY, largest=2_005
    )
    admin = KafkaTopicAdmin(connection)
    try:
        holding = (await admin.topic_settings(topic))[0]
        contents = Contents(captured=example().captured, carried={topic: carried}, largest={})
        changes = contents.changes(topic, holding, recorded={})
        assert set(changes) == {*HARMFUL, "message.timestamp.after.max.ms"}
        alter_settings(kafka.bootstrap, topic, changes)
        holding = (await admin.topic_settings(topic))[0]
        assert contents.changes(topic, holding, recorded={}) == {}
    finally:
        await admin.close()
    bulk = KafkaBulk(connection)
    (offsets,) = bulk.append(records).values()
    kept = [
        (record.key, record.timestamp_ms)
        for record in bulk.read([(topic, 0, min(offsets), max(offsets) + 1)])
    ]
    assert kept == [(record.key, record.timestamp_ms) for record in records]
