"""What librdkafka does on a real broker: many records, also where settings would refuse or delete them; where keys go;
and a record that a participant puts back (R16)."""

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.config import Config
from snapkafka.drivers import Consumer, PlainDriver
from snapkafka.drivers.plain.confluent_clients import partitioner_of
from snapkafka.errors import LedgerUnusableError, TimedOutError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.restore import Carried
from snapkafka.restore.topics import Contents
from snapkafka.testing import Broker, RunningSystem, create_topics
from snapkafka.until import blocking_until
from tests.altering import alter_settings
from tests.features.harness import read_topics
from tests.kafka.waiting import becomes
from tests.unit.base.test_manifest import example

pytestmark = pytest.mark.timeout(120)

NOW_MS = 1_790_000_000_000


@pytest.fixture
def bulk(connection: Connection) -> KafkaBulk:
    return KafkaBulk(connection)


def test_records_come_back_byte_by_byte_and_in_order(bulk: KafkaBulk, topic: str) -> None:
    """Null and empty are two things; headers keep order, repeated names and nulls; timestamps are their own."""
    odd = [
        KafkaRecord(topic, 0, -1, None, None, (), NOW_MS),
        KafkaRecord(topic, 0, -1, b"", b"", (("a", b""), ("b", None), ("a", b"\x00\xff")), NOW_MS - 7),
        KafkaRecord(topic, 0, -1, b"\xff\x00", b"v" * 100_000, (("ä", b"1"),), 1),
    ]
    many = [KafkaRecord(topic, n % 2, -1, b"%d" % n, b"x", (), NOW_MS) for n in range(2_000)]
    offsets = bulk.append([*odd, *many])
    found = list(bulk.read([(topic, 0, 0, 1_003), (topic, 1, 0, 1_000)]))
    for partition in (0, 1):
        sent = [record for record in [*odd, *many] if record.partition == partition]
        read = [record for record in found if record.partition == partition]
        assert read == [record._replace(offset=n) for n, record in enumerate(sent)]
        assert sorted(offsets[TopicPartition(topic, partition)]) == list(range(len(sent)))
    assert [record.offset for record in bulk.read([(topic, 1, 10, 12)])] == [10, 11]


async def test_aborted_and_open(kafka: Broker, bulk: KafkaBulk, admin: KafkaTopicAdmin, topic: str) -> None:
    """What was aborted is not read, and a range may end with a control record."""
    tp = TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        producer.produce(topic, b"kept", partition=0)
        producer.flush(30)
        if end is not None:
            end(30)
    assert [record.offset for record in bulk.read([(topic, 0, 0, 4)])] == [0]
    ends = await admin.log_ends([tp]), await admin.log_ends([tp], stable=True)
    assert ends == ({tp: 5}, {tp: 4}), "a transaction is open"
    producer.abort_transaction(30)
    # The marker is written after the abort is acknowledged.
    await becomes(lambda: admin.log_ends([tp], stable=True), {tp: 6})


def test_many_records_go_into_topics_with_small_batches(kafka: Broker, bulk: KafkaBulk, topic: str) -> None:
    """The limit is the broker's for a batch; each record fits, and all of them together do not. One that is too large
    ends it, as does a stop."""
    small = f"{topic}-small"
    create_topics(kafka.bootstrap, small, config={"max.message.bytes": "50000"})
    sent = [
        KafkaRecord(to, 0, -1, b"%d" % n, b"v" * size, (), NOW_MS)
        for n in range(500)
        for to, size in ((small, 1_000), (topic, 20_000))
    ]
    sent.append(KafkaRecord(small, 0, -1, b"largest", b"v" * 49_900, (), NOW_MS))
    bulk.batch_bytes = 49_500
    offsets = bulk.append(sent)
    for to, end in ((small, 501), (topic, 500)):
        assert sorted(offsets[TopicPartition(to, 0)]) == list(range(end))
        found = [record._replace(offset=-1) for record in bulk.read([(to, 0, 0, end)])]
        assert found == [record for record in sent if record.topic == to]
    with pytest.raises(LedgerUnusableError, match=small):
        bulk.append([sent[0]._replace(value=b"v" * 60_000)])
    bulk.stop.set()
    with pytest.raises(TimedOutError):
        bulk.append(sent[:1])


DAY = 86_400_000
HARMFUL = {
    "retention.ms": "1000", "retention.bytes": "10", "max.message.bytes": "500",
    "message.timestamp.before.max.ms": "1000",
}  # fmt: skip


async def test_what_is_changed_lets_a_new_topic_take_and_keep_old_and_large_records_and_those_ahead(
    kafka: Broker, bulk: KafkaBulk, admin: KafkaTopicAdmin, namespace: str
) -> None:
    """Each of them alone is refused before; of `after.max.ms` it is the broker's default that refuses."""
    now_ms = int(time.time() * 1000)
    create_topics(kafka.bootstrap, namespace, config=HARMFUL)
    ages = {b"old": now_ms - 30 * DAY, b"large": now_ms, b"ahead": now_ms + DAY}
    records = [
        KafkaRecord(namespace, 0, -1, key, b"v" * (2_000 if key == b"large" else 1), (), at_ms)
        for key, at_ms in ages.items()
    ]
    for record in records:
        with pytest.raises(LedgerUnusableError):
            bulk.append([record])
    times = {"oldest_ms": ages[b"old"], "youngest_ms": ages[b"ahead"]}
    carried = {namespace: Carried(records=3, bytes=3_000, largest=2_005, **times)}
    contents = Contents(captured=example().captured, carried=carried, largest={})
    changes = contents.changes(namespace, (await admin.topic_settings(namespace))[0], recorded={})
    assert set(changes) == {*HARMFUL, "message.timestamp.after.max.ms"}
    alter_settings(kafka.bootstrap, namespace, changes)
    assert contents.changes(namespace, (await admin.topic_settings(namespace))[0], recorded={}) == {}
    (offsets,) = bulk.append(records).values()
    kept = [it._replace(offset=-1) for it in bulk.read([(namespace, 0, min(offsets), max(offsets) + 1)])]
    assert kept == records


@pytest.mark.parametrize("name", ["consistent", "consistent_random", "murmur2", "murmur2_random", "send"])
def test_keys_go_where_librdkafka_puts_them(kafka: Broker, namespace: str, tmp_path: Path, name: str) -> None:
    """`send`: of a system of the test kit, which chooses as Faust does."""
    create_topics(kafka.bootstrap, namespace, partitions=7)
    keys = [b"key-%d" % number for number in range(200)]
    if name == "send":
        for key in keys[:40]:
            RunningSystem(kafka.bootstrap, namespace, tmp_path).send(namespace, 1, key=key)
    else:
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": name, "linger.ms": 5})
        for key in keys:
            producer.produce(namespace, b"", key)
        assert producer.flush(30) == 0
    (records,) = read_topics(kafka.bootstrap, namespace).values()
    chosen = partitioner_of({"partitioner": "murmur2" if name == "send" else name})
    assert {it.key: it.partition for it in records} == {
        key: chosen(key, 7) for key in keys[: 40 if name == "send" else 200]
    }


def read(consumer: Consumer) -> Any:
    return blocking_until(lambda: consumer.plainly(0.2), 30, "a record").offset()


@pytest.mark.parametrize("seek", [False, True])
def test_r16_what_is_put_back_is_read_again(connection: Connection, topic: str, seek: bool) -> None:
    """`seek`: the loop seeks meanwhile; its word is the last one."""
    producer = Producer({"bootstrap.servers": connection.bootstrap})
    for _ in range(10):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(30) == 0
    settings = {"bootstrap.servers": connection.bootstrap, "group.id": topic, "enable.auto.commit": False}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    held = consumer.host = PlainDriver(Config(namespace=topic), connection)
    tp, here = TopicPartition(topic, 0), KafkaPartition(topic, 0)
    consumer.subscribe([topic])
    try:
        assert [read(consumer) for _ in range(5)] == [0, 1, 2, 3, 4]
        held.hold(tp)
        consumer.put_back(tp, 4)
        assert [consumer.plainly(0.02) for _ in range(20)] == [None] * 20
        assert [found.offset for found in consumer.position([here])] == [4]
        consumer.commit(asynchronous=False)
        assert [found.offset for found in consumer.committed([here], 10)] == [4]
        if seek:
            consumer.seek(KafkaPartition(topic, 0, 2))
        held.let_go()
        assert [read(consumer) for _ in range(2)] == ([2, 3] if seek else [4, 5])
    finally:
        consumer.host = None
        consumer.close()
