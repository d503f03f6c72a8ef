"""Topics, and the starts, ends and times of their logs, on a real broker."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import UnknownTopicOrPartitionError

from snapkafka.errors import LedgerUnusableError, SnapkafkaError
from snapkafka.kafka import Connection, KafkaBulk, KafkaRecord, KafkaTopicAdmin
from snapkafka.kafka.login import clients
from snapkafka.kafka.records.bulk import PRODUCER
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.kafka.waiting import becomes


async def test_a_topic_has_another_id_than_its_successor(admin: KafkaTopicAdmin, namespace: str) -> None:
    assert await admin.create_topic(namespace, partitions=3, validate_only=True)
    assert namespace not in await admin.describe_topics()
    assert await admin.create_topic(namespace, partitions=3)
    for validate_only in (True, False):
        assert not await admin.create_topic(namespace, partitions=3, validate_only=validate_only)
    first = (await admin.describe_topics([namespace, f"{namespace}-none"]))[namespace]
    assert (first.partitions, len(first.topic_id)) == (3, 32)
    assert int(first.topic_id, 16) != 0
    await admin.delete_topics(namespace, f"{namespace}-none")
    await becomes(lambda: admin.describe_topics([namespace]), {})
    await admin.create_topic(namespace, partitions=3)
    assert (await admin.describe_topics([namespace]))[namespace].topic_id != first.topic_id


async def test_the_reason_of_a_broker_is_reported_in_one_line(admin: KafkaTopicAdmin, namespace: str) -> None:
    soon, none = {"retention.ms": "soon"}, f"{namespace}-none"
    for refused, named in (
        (admin.create_topic(namespace, settings=soon), r"soon.*retention\.ms"),
        (admin.create_topic("no/name"), "no/name"),
        (admin.topic_settings(none), none),
    ):
        with pytest.raises(LedgerUnusableError, match=named) as raised:
            await refused
        assert "\n" not in raised.value.message


async def _send(connection: Connection, tp: TopicPartition) -> None:
    producer = await clients.started(clients.producer(connection))
    try:
        await producer.send(tp.topic, b"value")
    finally:
        await producer.stop()


async def _append(connection: Connection, tp: TopicPartition) -> None:
    record = KafkaRecord(*tp, -1, b"k", b"v", (), -1)
    with patch.dict(PRODUCER, {"topic.metadata.propagation.max.ms": 2_000}):
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
async def test_no_question_about_a_topic_creates_it(connection: Connection, namespace: str, ask: str) -> None:
    """This broker creates what an ordinary client asks for, by its own defaults: a changelog that was deleted would
    come back with `cleanup.policy=delete`."""
    async with KafkaTopicAdmin(replace(connection, request_timeout_ms=1_500)) as admin:
        with contextlib.suppress(SnapkafkaError, UnknownTopicOrPartitionError, TimeoutError):
            await asyncio.wait_for(ASKS[ask](admin, TopicPartition(namespace, 0)), 5)
        await admin.create_topic(f"{namespace}-later")  # what a question creates is there by then
        assert namespace not in await admin.describe_topics()


async def test_a_broker_that_knew_of_no_broker_when_it_was_asked_first_is_asked_again(
    admin: KafkaTopicAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has just started, and does not know of itself yet."""
    learn = ClusterMetadata.update_metadata
    with monkeypatch.context() as starting:
        starting.setattr(
            ClusterMetadata, "update_metadata", lambda cluster, _: learn(cluster, Mock(brokers=[]))
        )
        await admin._connected()
    assert dict(await admin.log_ends([TopicPartition(topic, 0)])) == {TopicPartition(topic, 0): 0}


async def test_ends_and_starts_of_what_there_is(kafka: Broker, admin: KafkaTopicAdmin, topic: str) -> None:
    """One deleted topic takes nothing from the answer about the others, and who needs its end is told why."""
    empty, filled, beyond = (TopicPartition(topic, partition) for partition in range(3))
    deleted = TopicPartition(f"{topic}-none", 0)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for _ in range(3):
            await producer.send_and_wait(topic, b"x", partition=1)
    await admin.delete_records(filled, 2)
    ends = await admin.log_ends([empty, filled, beyond, deleted])
    assert dict(ends) == {empty: 0, filled: 3}
    assert dict(await admin.log_starts([empty, filled, beyond, deleted])) == {empty: 0, filled: 2}
    assert await admin.log_ends([]) == {}
    with pytest.raises(LedgerUnusableError, match=deleted.topic):
        ends[deleted]


async def test_ends_of_a_topic_that_was_recreated_are_those_of_the_new_one(
    kafka: Broker, admin: KafkaTopicAdmin, topic: str
) -> None:
    """Who led the partitions of the old one is known."""
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(topic, b"x", partition=0)
    assert await admin.log_ends([first, second]) == {first: 1, second: 0}
    await admin.delete_topics(topic)
    await becomes(lambda: admin.log_ends([first, second]), {})
    await admin.create_topic(topic, partitions=1)
    assert await admin.log_ends([first, second]) == {first: 0}


async def test_when_records_were_written(
    kafka: Broker, admin: KafkaTopicAdmin, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many partitions at once, large records among them; where nothing follows, nothing is told, and nobody waits
    for it: behind a transaction stands its marker, and no record."""
    monkeypatch.setattr("snapkafka.kafka.records.read.WITHIN_S", 600.0)
    create_topics(kafka.bootstrap, f"{topic}-more", partitions=2)
    one, two, three, four = (TopicPartition(name, n) for name in (topic, f"{topic}-more") for n in range(2))
    assert await admin.record_times({}) == {}
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for at_ms in range(1_000, 1_003):
            for tp, size in ((one, 100_000), (two, 1)):
                more = {"partition": tp.partition, "timestamp_ms": at_ms}
                await producer.send_and_wait(topic, b"x" * size, **more)
    async with (
        AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait(three.topic, b"x", partition=0)
    await becomes(lambda: admin.log_ends([three]), {three: 2})  # the marker comes after the acknowledgement
    assert await admin.record_times({one: 0, two: 1, three: 1, four: 0}) == {one: 1_000, two: 1_001}


async def test_many_ends_are_asked_for_at_once(kafka: Broker, admin: KafkaTopicAdmin, namespace: str) -> None:
    """One after the other they would take longer than anybody waits for a broker."""
    tps = [TopicPartition(f"{namespace}-{n}", 0) for n in range(150)]
    create_topics(kafka.bootstrap, *(tp.topic for tp in tps))
    began = time.monotonic()
    assert await admin.log_ends(tps) == dict.fromkeys(tps, 0)
    assert time.monotonic() - began < len(tps) * 0.1 / 2
