"""Many records, read and appended in order, on a real broker; also where settings would refuse or delete them."""

import time

import pytest
from confluent_kafka import Producer

from snapkafka.errors import LedgerUnusableError, TimedOutError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.restore import Carried
from snapkafka.restore.topics import Contents
from snapkafka.testing import Broker, create_topics
from tests.altering import alter_settings
from tests.kafka.waiting import until
from tests.unit.base.test_manifest import example

pytestmark = pytest.mark.timeout(120)

NOW_MS = 1_790_000_000_000


@pytest.fixture
def bulk(connection: Connection) -> KafkaBulk:
    return KafkaBulk(connection)


def test_records_come_back_byte_by_byte_and_in_order(
    kafka: Broker, bulk: KafkaBulk, topic_prefix: str
) -> None:
    """Null and empty are two things; headers keep order, repeated names and nulls; timestamps are their own."""
    topic = f"{topic_prefix}bulk"
    create_topics(kafka.bootstrap, topic, partitions=2)
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
        assert [it._replace(offset=-1) for it in read] == sent
        assert [record.offset for record in read] == list(range(len(sent)))
        assert sorted(offsets[TopicPartition(topic, partition)]) == list(range(len(sent)))
    assert [record.offset for record in bulk.read([(topic, 1, 10, 12)])] == [10, 11]


async def test_what_was_aborted_is_not_read_and_a_range_may_end_with_a_control_record(
    kafka: Broker, bulk: KafkaBulk, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}transactions"
    tp = TopicPartition(topic, 0)
    create_topics(kafka.bootstrap, topic, partitions=1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for value, commit in ((b"kept", True), (b"aborted", False)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    assert [record.value for record in bulk.read([(topic, 0, 0, 4)])] == [b"kept"]
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(30)
    ends = await admin.log_ends([tp]), await admin.log_ends([tp], stable=True)
    assert ends == ({tp: 5}, {tp: 4}), "a transaction is open"
    producer.abort_transaction(30)

    async def ended() -> bool:  # the marker is written after the abort is acknowledged
        return await admin.log_ends([tp], stable=True) == {tp: 6}

    await until(ended)


def test_a_record_that_is_refused_and_a_stop_end_it(
    kafka: Broker, bulk: KafkaBulk, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}small"
    create_topics(kafka.bootstrap, topic, partitions=1, config={"max.message.bytes": "1000"})
    with pytest.raises(LedgerUnusableError, match=f"{topic}"):
        bulk.append([KafkaRecord(topic, 0, -1, None, b"v" * 2_000, (), -1)])
    bulk.stop.set()
    with pytest.raises(TimedOutError, match="interrupted"):
        bulk.append([KafkaRecord(topic, 0, -1, None, b"v", (), -1)])


def test_many_records_go_into_a_topic_that_takes_small_batches_and_into_others_beside_it(
    kafka: Broker, bulk: KafkaBulk, topic_prefix: str
) -> None:
    """The limit is the broker's for a batch; each record fits, and all of them together do not."""
    small, usual = f"{topic_prefix}small-batches", f"{topic_prefix}usual-batches"
    create_topics(kafka.bootstrap, small, partitions=1, config={"max.message.bytes": "50000"})
    create_topics(kafka.bootstrap, usual, partitions=1)
    sent = [
        KafkaRecord(topic, 0, -1, b"%d" % n, b"v" * size, (), NOW_MS)
        for n in range(500)
        for topic, size in ((small, 1_000), (usual, 20_000))
    ]
    sent.append(KafkaRecord(small, 0, -1, b"largest", b"v" * 49_900, (), NOW_MS))
    bulk.batch_bytes = 49_500
    offsets = bulk.append(sent)
    assert {tp.topic: sorted(of) for tp, of in offsets.items()} == {
        small: list(range(501)),
        usual: list(range(500)),
    }
    for topic, end in ((small, 501), (usual, 500)):
        found = [(record.key, record.value) for record in bulk.read([(topic, 0, 0, end)])]
        assert found == [(record.key, record.value) for record in sent if record.topic == topic]


DAY = 86_400_000
HARMFUL = {
    "retention.ms": "1000",
    "retention.bytes": "10",
    "max.message.bytes": "500",
    "message.timestamp.before.max.ms": "1000",
}


async def test_what_is_changed_lets_a_new_topic_take_and_keep_old_and_large_records_and_those_ahead(
    kafka: Broker, connection: Connection, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    """Each of them alone is refused before; of `after.max.ms` it is the broker's default that refuses."""
    topic, now_ms = f"{topic_prefix}new", int(time.time() * 1000)
    create_topics(kafka.bootstrap, topic, partitions=1, config=HARMFUL)
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
    holding = (await admin.topic_settings(topic))[0]
    contents = Contents(captured=example().captured, carried={topic: carried}, largest={})
    changes = contents.changes(topic, holding, recorded={})
    assert set(changes) == {*HARMFUL, "message.timestamp.after.max.ms"}
    alter_settings(kafka.bootstrap, topic, changes)
    holding = (await admin.topic_settings(topic))[0]
    assert contents.changes(topic, holding, recorded={}) == {}
    bulk = KafkaBulk(connection)
    (offsets,) = bulk.append(records).values()
    kept = [
        (record.key, record.timestamp_ms)
        for record in bulk.read([(topic, 0, min(offsets), max(offsets) + 1)])
    ]
    assert kept == [(record.key, record.timestamp_ms) for record in records]
