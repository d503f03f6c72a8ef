"""Consumer groups on a real broker: what they read and have committed, where a member starts (R14), one that is held,
and partitions that are read for a process that does not speak Kafka."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.errors import InconsistentGroupProtocolError
from confluent_kafka import Consumer

from snapkafka.drivers.faust.inbound.membership import starts_at
from snapkafka.drivers.remote.inputs import Input, resolve
from snapkafka.errors import LedgerUnusableError, OffsetsGoneError, OvertakenError, TriggerRefusedError
from snapkafka.kafka import HOLDER, Connection, GroupTakenError, KafkaTopicAdmin
from snapkafka.kafka.cluster.group_hold import GroupHold
from snapkafka.kafka.records.read import KafkaConsumer
from snapkafka.ports import Group
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker
from snapkafka.until import succeed
from tests.kafka.waiting import until

pytestmark = pytest.mark.timeout(120)

#: The shortest that a broker allows.
SESSION_S = 6.0


@pytest.fixture
def tps(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(2)]


@pytest.fixture
async def side(connection: Connection, topic: str) -> AsyncIterator[KafkaConsumer]:
    consumer = KafkaConsumer(connection, topic, bytes_max=1_000_000)
    yield consumer
    await consumer.close()


def consumer(kafka: Broker, topic: str, *more: str, **settings: Any) -> AIOKafkaConsumer:
    where = {"group_id": topic, "bootstrap_servers": kafka.bootstrap}
    return AIOKafkaConsumer(topic, *more, **where, enable_auto_commit=False, **settings)


@asynccontextmanager
async def sending(kafka: Broker, topic: str) -> AsyncIterator[AIOKafkaProducer]:
    """Within a transaction."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=topic)
    async with producer, producer.transaction():
        yield producer


async def group(admin: KafkaTopicAdmin, name: str) -> Group | None:
    return next((found for found in await admin.groups() if found.name == name), None)


async def test_positions_are_committed_by_who_is_no_member_and_not_beside_one(
    kafka: Broker, admin: KafkaTopicAdmin, side: KafkaConsumer, topic: str, tps: list[TopicPartition]
) -> None:
    """A group is known by what it reads; one that has stopped may come back: by what it has read."""
    assert not await admin.group_members(topic), "there is none"
    async with sending(kafka, topic) as producer:
        await producer.send_and_wait(topic, b"x", partition=0)
    await admin.commit_positions(topic, dict.fromkeys(tps, 0), "snapshot-1")
    await admin.commit_positions(topic, {tps[0]: 1}, "snapshot-2")
    assert await admin.committed(topic) == {tps[0]: (1, "snapshot-2"), tps[1]: (0, "snapshot-1")}
    await side.start(dict.fromkeys(tps, 0))
    await side.commit({tps[0]: 2})
    assert await admin.committed(topic) == {tps[0]: (2, ""), tps[1]: (0, "snapshot-1")}
    assert (await resolve(admin, topic, [Input(topic=topic)])).positions == {tps[0]: 2, tps[1]: 0}
    stopped = await group(admin, topic)
    assert stopped == Group(topic, frozenset({topic}), ())

    more = f"{topic}-more"
    await admin.create_topic(more)
    async with consumer(kafka, topic, more) as member:
        await until(lambda: len(member.assignment()) == 3)
        found = await group(admin, topic)
        assert found is not None and (len(found.members), found.topics) == (1, frozenset({topic, more}))
        assert len(await admin.group_members(topic)) == 1
        commits = side.commit({tps[0]: 1}), admin.commit_positions(topic, {tps[0]: 1}, "")
        for refused in (*commits, admin.delete_groups(topic)):
            with pytest.raises(LedgerUnusableError) as raised:
                await refused
            assert "\n" not in raised.value.message
        with pytest.raises(TriggerRefusedError):
            await resolve(admin, topic, [Input(topic=topic)])
    assert await group(admin, topic) == stopped
    await admin.delete_groups(f"{topic}-none", topic)
    assert await group(admin, topic) is None


@pytest.mark.parametrize("pattern", [False, True])
async def test_a_kip_848_group(kafka: Broker, admin: KafkaTopicAdmin, topic: str, pattern: bool) -> None:
    """KIP-848: the classic request knows nothing of it."""
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic, "group.protocol": "consumer"})
    member.subscribe([f"^{topic}$" if pattern else topic])

    def has_joined() -> bool:
        reported = member.poll(0.2)
        error = None if reported is None else reported.error()
        assert error is None or not error.fatal(), error.str()  # a broker before Kafka 4 has no such groups
        return bool(member.assignment())

    try:
        await until(lambda: asyncio.to_thread(has_joined))
        found = await group(admin, topic)
        assert found is not None and (len(found.members), found.topics) == (1, frozenset({topic}))
        assert len(await admin.group_members(topic)) == 1
    finally:
        await asyncio.to_thread(member.close)
        await admin.delete_groups(topic)  # else the other tests on this broker see it


@pytest.mark.parametrize(
    ("reset", "isolation", "start"),
    [
        ("earliest", "read_uncommitted", 0),
        ("latest", "read_uncommitted", 5),
        ("latest", "read_committed", 4),  # before the open transaction
    ],
)
async def test_r14_where_a_member_started_is_reported_later_too(
    kafka: Broker, admin: KafkaTopicAdmin, topic: str, reset: str, isolation: str, start: int
) -> None:
    """Settled once, right after the assignment. The log has grown behind the end and been trimmed at its beginning
    since, and the consumer has fetched."""
    place = KafkaPartition(topic, 0)
    async with sending(kafka, topic) as producer:
        for _ in range(3):
            await producer.send_and_wait(topic, b"before", partition=0)
    async with sending(kafka, topic) as producer:
        await producer.send_and_wait(topic, b"open", partition=0)
        async with consumer(kafka, topic, auto_offset_reset=reset, isolation_level=isolation) as member:
            await asyncio.wait_for(member.position(place), 30)
            for _ in range(3):
                await producer.send_and_wait(topic, b"since", partition=0)
            await until(lambda: (member.highwater(place) or 0) > start)
            await admin.delete_records(TopicPartition(topic, 0), 2)
            assert await member.committed(place) is None
            assert await starts_at(TopicPartition(topic, 0), member) == start


async def test_nobody_joins_a_group_that_is_held(
    kafka: Broker, connection: Connection, admin: KafkaTopicAdmin, topic: str, tps: list[TopicPartition]
) -> None:
    hold = GroupHold(connection, topic)
    await hold.acquire()
    worker = consumer(kafka, topic)
    try:
        with pytest.raises(InconsistentGroupProtocolError):
            await worker.start()
        with pytest.raises(GroupTakenError):
            await GroupHold(connection, topic).acquire()
        await hold.commit({tps[0]: 7}, "a note")
        assert await admin.committed(topic) == {tps[0]: (7, "a note")}
        assert [member.client for member in await admin.group_members(topic)] == [HOLDER]
    finally:
        await worker.stop()
        await hold.release()
    with pytest.raises(OvertakenError):
        await hold.commit({tps[0]: 1}, "")
    async with consumer(kafka, topic):
        with pytest.raises(GroupTakenError):
            await hold.acquire()
        assert [member.client for member in await admin.group_members(topic)] != [HOLDER]


async def test_a_hold_lasts_as_long_as_its_heartbeats_and_a_holder_that_was_suspended_sets_nothing(
    connection: Connection, admin: KafkaTopicAdmin, topic: str, tps: list[TopicPartition]
) -> None:
    """Without a heartbeat its session is over; another one holds the group since."""
    suspended, other = (GroupHold(connection, topic, session_s=SESSION_S) for _ in range(2))
    await suspended.acquire()
    try:
        deadline = time.monotonic() + 1.3 * SESSION_S
        while time.monotonic() < deadline:
            suspended.require()
            assert 0 < suspended.left_s <= SESSION_S
            await asyncio.sleep(0.5)
        assert suspended._beating is not None
        suspended._beating.cancel()
        await succeed(other.acquire, 4 * SESSION_S, GroupTakenError)
        await other.commit({tps[0]: 5}, "")
        with pytest.raises(OvertakenError):
            suspended.require()
        suspended._until = time.monotonic() + 100  # a clock that stood still as well: the broker decides
        with pytest.raises(OvertakenError):
            await suspended.commit({tps[0]: 1}, "")
        assert await admin.committed(topic) == {tps[0]: (5, "")}
    finally:
        await suspended.release()
        await other.release()


async def read(side: KafkaConsumer, count: int, *tps: TopicPartition) -> list[tuple[int, bytes | None]]:
    found: list[tuple[int, bytes | None]] = []

    async def enough() -> bool:
        found.extend((record.offset, record.header) for record in await side.read(tps, 200))
        return len(found) >= count

    await until(enough)
    return found


async def test_they_are_read_from_positions_without_aborted_transactions_and_nothing_deleted_is_skipped(
    kafka: Broker, admin: KafkaTopicAdmin, side: KafkaConsumer, topic: str, tps: list[TopicPartition]
) -> None:
    for value, partition in ((b"0", 0), (b"never", 0), (b"1", 0), (b"2", 1)):
        try:
            async with sending(kafka, topic) as producer:
                await producer.send_and_wait(topic, value, partition=partition, headers=[("_sk", value)])
                assert value != b"never", "this ends the transaction"
        except AssertionError:
            continue
    starts = await resolve(admin, topic, [Input(topic=topic, positions={0: 0})])
    assert starts.positions == dict.fromkeys(tps, 0)
    assert starts.topics[0].topic_id == (await admin.describe_topics([topic]))[topic].topic_id
    await side.start(starts.positions)
    assert sorted(await read(side, 3, *tps)) == [(0, b"0"), (0, b"2"), (4, b"1")]
    side.seek({tps[0]: 1})
    assert await read(side, 1, tps[0]) == [(4, b"1")]
    await admin.delete_records(tps[0], 4)
    side.seek({tps[0]: 0})
    with pytest.raises(OffsetsGoneError):
        await read(side, 1, tps[0])
    side.seek({tps[0]: 4})
    assert await read(side, 1, tps[0]) == [(4, b"1")]
    with pytest.raises(OffsetsGoneError):
        await resolve(admin, topic, [Input(topic=topic, positions={0: 1})])
