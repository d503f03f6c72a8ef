"""Topics, ends and groups on a real broker."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from unittest.mock import patch

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import UnknownTopicOrPartitionError
from confluent_kafka import Consumer

from snapkafka.errors import LedgerUnusableError, SnapkafkaError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord, KafkaTopicAdmin, compose_trigger
from snapkafka.kafka.login import clients
from snapkafka.kafka.records.bulk import PRODUCER
from snapkafka.ports import Group
from snapkafka.protocol import Assigned, Hello, InputTopic, LedgerState, TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.kafka.waiting import until


async def test_a_topic_has_an_id_that_distinguishes_it_from_the_next_of_its_name(
    admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}a"
    assert await admin.create_topic(topic, partitions=3, validate_only=True)
    assert topic not in await admin.describe_topics()
    assert await admin.create_topic(topic, partitions=3)
    for validate_only in (True, False):
        assert not await admin.create_topic(topic, partitions=3, validate_only=validate_only)
    first = (await admin.describe_topics([topic, f"{topic_prefix}none"]))[topic]
    assert (first.partitions, len(first.topic_id)) == (3, 32)
    assert int(first.topic_id, 16) != 0
    await admin.delete_topics(topic, f"{topic_prefix}none")
    await until(partial(is_gone, admin, topic))
    await admin.create_topic(topic, partitions=3)
    assert (await admin.describe_topics([topic]))[topic].topic_id != first.topic_id


@pytest.mark.parametrize("validate_only", [True, False])
async def test_the_reason_of_a_broker_is_reported_in_one_line(
    admin: KafkaTopicAdmin, topic_prefix: str, validate_only: bool
) -> None:
    with pytest.raises(LedgerUnusableError, match=r"soon.*retention\.ms") as raised:
        await admin.create_topic(
            f"{topic_prefix}a", settings={"retention.ms": "soon"}, validate_only=validate_only
        )
    assert "\n" not in raised.value.message
    for refused in (admin.topic_settings(f"{topic_prefix}none"), admin.create_topic("no/name")):
        with pytest.raises(LedgerUnusableError, match=f"{topic_prefix}none|no/name"):
            await refused


async def is_gone(admin: KafkaTopicAdmin, topic: str) -> bool:
    return topic not in await admin.describe_topics()


async def _send(connection: Connection, tp: TopicPartition) -> None:
    producer = await clients.started(clients.producer(connection))
    try:
        await producer.send(tp.topic, b"value")
    finally:
        await producer.stop()


async def _append(connection: Connection, tp: TopicPartition) -> None:
    record = KafkaRecord(*tp, -1, b"k", b"v", (), -1)
    with (
        patch.dict(PRODUCER, {"topic.metadata.propagation.max.ms": 2_000}),
        pytest.raises(LedgerUnusableError),
    ):
        await asyncio.to_thread(KafkaBulk(connection).append, [record])


ASKS: dict[str, Callable[[KafkaTopicAdmin, TopicPartition], Awaitable[object]]] = {
    "describe": lambda admin, tp: admin.describe_topics([tp.topic]),
    "ends": lambda admin, tp: admin.log_ends([tp]),
    "starts": lambda admin, tp: admin.log_starts([tp]),
    "times": lambda admin, tp: admin.record_times({tp: 0}),
    "headers": lambda admin, tp: admin.record_headers({tp: 0}),
    "settings": lambda admin, tp: admin.topic_settings(tp.topic),
    "deletion": lambda admin, tp: admin.delete_records(tp, 0),
    "commit": lambda admin, tp: admin.commit_positions(f"{tp.topic}-g", {tp: 0}, ""),
    "send": lambda admin, tp: _send(admin.connection, tp),
    "append": lambda admin, tp: _append(admin.connection, tp),
    "stable end": lambda admin, tp: admin.log_ends([tp], stable=True),
}


@pytest.mark.parametrize("ask", ASKS)
async def test_no_question_about_a_topic_creates_it(kafka: Broker, topic_prefix: str, ask: str) -> None:
    """This broker creates what an ordinary client asks for, by its own defaults: a changelog that was deleted would
    come back with `cleanup.policy=delete`."""
    tp = TopicPartition(f"{topic_prefix}a", 0)
    async with KafkaTopicAdmin(Connection(bootstrap=kafka.bootstrap, request_timeout_ms=1_500)) as admin:
        with contextlib.suppress(SnapkafkaError, UnknownTopicOrPartitionError, TimeoutError):
            await asyncio.wait_for(ASKS[ask](admin, tp), 5)
        assert tp.topic not in await admin.describe_topics()


async def test_ends_and_starts_are_of_the_partitions_that_exist(
    kafka: Broker, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    """One deleted topic takes nothing from the answer about the others, and who needs its end is told why."""
    empty, filled, beyond = (TopicPartition(f"{topic_prefix}a", partition) for partition in range(3))
    deleted = TopicPartition(f"{topic_prefix}b", 0)
    await admin.create_topic(empty.topic, partitions=2)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for _ in range(3):
            await producer.send_and_wait(filled.topic, b"x", partition=1)
    ends = await admin.log_ends([empty, filled, beyond, deleted])
    assert dict(ends) == {empty: 0, filled: 3}
    assert dict(await admin.log_starts([empty, filled, beyond, deleted])) == {empty: 0, filled: 0}
    assert await admin.log_ends([]) == {}
    with pytest.raises(LedgerUnusableError, match=f"{topic_prefix}b"):
        ends[deleted]


async def test_positions_are_committed_with_a_note_for_a_group_without_members(
    kafka: Broker, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    topic, group = f"{topic_prefix}a", f"snapkafka.{topic_prefix}shop"
    await admin.create_topic(topic, partitions=2)
    positions = {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 0}
    await admin.commit_positions(group, positions, "snapshot-1")
    assert await admin.committed(group) == {tp: (at, "snapshot-1") for tp, at in positions.items()}
    await admin.commit_positions(group, {TopicPartition(topic, 0): 9}, "snapshot-2")
    assert (await admin.committed(group))[TopicPartition(topic, 0)] == (9, "snapshot-2")
    consumer = AIOKafkaConsumer(topic, group_id=f"{group}-busy", bootstrap_servers=kafka.bootstrap)
    async with consumer:
        await consumer.getmany(timeout_ms=500)
        with pytest.raises(LedgerUnusableError) as raised:
            await admin.commit_positions(f"{group}-busy", positions, "snapshot-1")
    assert "\n" not in raised.value.message


async def group(admin: KafkaTopicAdmin, name: str) -> Group:
    return next(found for found in await admin.groups() if found.name == name)


async def test_a_group_is_known_by_what_it_reads_or_has_read(
    kafka: Broker, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    topics, name = (f"{topic_prefix}a", f"{topic_prefix}b"), f"{topic_prefix}group"
    for topic in topics:
        await admin.create_topic(topic)
    assert not await admin.group_members(name), "there is none"
    consumer = AIOKafkaConsumer(
        *topics, group_id=name, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    )
    async with consumer, AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(topics[0], b"x")
        await consumer.getone()
        found = await group(admin, name)
        assert (len(found.members), found.topics) == (1, frozenset(topics))
        assert len(await admin.group_members(name)) == 1
        with pytest.raises(LedgerUnusableError):
            await admin.delete_groups(name)
    assert not await admin.group_members(name)
    stopped = await group(admin, name)  # it may come back: what it has read is remembered by its positions
    assert stopped.members == ()
    assert stopped.topics is not None
    assert topics[0] in stopped.topics
    await admin.delete_groups(f"{name}-none", name)
    assert name not in {found.name for found in await admin.groups()}


@pytest.mark.parametrize("pattern", [False, True])
async def test_a_group_of_the_new_protocol_is_described(
    kafka: Broker, admin: KafkaTopicAdmin, topic_prefix: str, pattern: bool
) -> None:
    """KIP-848: the classic request knows nothing of it. One that reads another topic takes no markers away."""
    topic, other, name = f"{topic_prefix}a", f"{topic_prefix}b", f"{topic_prefix}new"
    for created in (topic, other):
        await admin.create_topic(created)
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": name, "group.protocol": "consumer"}
    )
    consumer.subscribe([f"^{topic}$" if pattern else topic])

    def has_joined() -> bool:
        reported = consumer.poll(0.2)
        error = None if reported is None else reported.error()
        assert error is None or not error.fatal(), error.str()  # a broker before Kafka 4 has no such groups
        return bool(consumer.assignment())

    try:
        await until(lambda: asyncio.to_thread(has_joined))
        found = await group(admin, name)
        assert (len(found.members), found.topics) == (1, frozenset({topic}))
        assert len(await admin.group_members(name)) == 1
        inputs = tuple(InputTopic(topic=name, partitions=1) for name in (topic, other))
        state = LedgerState()
        state.apply(0, Hello(n=1, app="shop", inputs=inputs))
        tps = tuple(TopicPartition(name, 0) for name in (topic, other))
        state.apply(1, Assigned(process=0, n=1, generation=1, inputs=tps))

        async def marked() -> bool:  # a group of another test on this broker may still be ending
            return (await compose_trigger(admin, state)).marker_topics == (other,)

        await until(marked)
        assert (await compose_trigger(admin, state, knowing=[name])).marker_topics == (topic, other)
    finally:
        await asyncio.to_thread(consumer.close)
        await admin.delete_groups(name)  # else the other tests on this broker see it


async def test_when_records_were_written(
    admin: KafkaTopicAdmin, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many partitions at once, large records among them; where nothing follows, nothing is told, and nobody waits
    for it."""
    monkeypatch.setattr("snapkafka.kafka.records.read.WITHIN_S", 600.0)
    topic = f"{topic_prefix}a"
    await admin.create_topic(topic, partitions=4)
    tps = [TopicPartition(topic, partition) for partition in range(4)]
    assert await admin.record_times({}) == {}
    async with AIOKafkaProducer(bootstrap_servers=admin.connection.bootstrap) as producer:
        for number in range(3):
            for tp in tps[:2]:
                await producer.send_and_wait(
                    topic, b"x" * 100_000, partition=tp.partition, timestamp_ms=1_000 + number
                )
        await producer.send_and_wait(topic, b"x", partition=2, timestamp_ms=5)
    async with (
        AIOKafkaProducer(bootstrap_servers=admin.connection.bootstrap, transactional_id=topic) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait(topic, b"x", partition=2)
    # The marker is written after the commit is acknowledged.
    await until(partial(ends_at, admin, tps[2], 3))
    found = await admin.record_times(dict(zip(tps, (0, 2, 2, 0), strict=True)))
    assert found == {tps[0]: 1_000, tps[1]: 1_002}, "behind the transaction stands its marker, and no record"


async def ends_at(admin: KafkaTopicAdmin, tp: TopicPartition, offset: int) -> bool:
    return await admin.log_ends([tp]) == {tp: offset}


async def test_ends_of_many_topics_are_asked_for_at_once(
    kafka: Broker, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    """One after the other they would take longer than anybody waits for a broker."""
    tps = [TopicPartition(f"{topic_prefix}{n}", 0) for n in range(150)]
    create_topics(kafka.bootstrap, *(tp.topic for tp in tps))
    began = time.monotonic()
    assert await admin.log_ends(tps) == dict.fromkeys(tps, 0)
    assert time.monotonic() - began < len(tps) * 0.1 / 2
