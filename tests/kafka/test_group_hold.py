"""A consumer group that is held: on a real broker, beside a consumer that knows nothing of it."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import InconsistentGroupProtocolError

from snapkafka.errors import OvertakenError
from snapkafka.kafka import HOLDER, Connection, GroupTakenError, KafkaTopicAdmin
from snapkafka.kafka.cluster.group_hold import GroupHold
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics

pytestmark = pytest.mark.timeout(120)

#: The shortest that a broker allows.
SESSION_S = 6.0


def consumer(kafka: Broker, topic: str, group: str) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        topic, group_id=group, bootstrap_servers=kafka.bootstrap, enable_auto_commit=False
    )


async def test_nobody_joins_a_group_that_is_held(
    kafka: Broker, connection: Connection, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    topic, group = f"{topic_prefix}in", f"{topic_prefix}app"
    create_topics(kafka.bootstrap, topic)
    hold = GroupHold(connection, group)
    await hold.acquire()
    worker = consumer(kafka, topic, group)
    try:
        with pytest.raises(InconsistentGroupProtocolError):
            await worker.start()
        with pytest.raises(GroupTakenError):
            await GroupHold(connection, group).acquire()
        await hold.commit({TopicPartition(topic, 0): 7}, "a note")
        assert (await admin.committed(group))[TopicPartition(topic, 0)] == (7, "a note")
        assert [member.client for member in await admin.group_members(group)] == [HOLDER]
    finally:
        await worker.stop()
        await hold.release()
    with pytest.raises(OvertakenError):
        await hold.commit({TopicPartition(topic, 0): 1}, "")
    assert await admin.group_members(group) == ()
    after = consumer(kafka, topic, group)
    await after.start()
    try:
        with pytest.raises(GroupTakenError):
            await hold.acquire()
        assert [member.client for member in await admin.group_members(group)] != [HOLDER]
    finally:
        await after.stop()


async def test_a_hold_lasts_as_long_as_its_heartbeats(connection: Connection, topic_prefix: str) -> None:
    hold = GroupHold(connection, f"{topic_prefix}app", session_s=SESSION_S)
    await hold.acquire()
    try:
        deadline = time.monotonic() + 1.3 * SESSION_S
        while time.monotonic() < deadline:
            hold.require()
            assert 0 < hold.left_s <= SESSION_S
            await asyncio.sleep(0.5)
    finally:
        await hold.release()


async def test_a_holder_that_was_suspended_sets_nothing(
    kafka: Broker, connection: Connection, admin: KafkaTopicAdmin, topic_prefix: str
) -> None:
    """It sends no heartbeat until its session is over; another one holds the group since."""
    topic, group = f"{topic_prefix}in", f"{topic_prefix}app"
    create_topics(kafka.bootstrap, topic)
    suspended = GroupHold(connection, group, session_s=SESSION_S)
    await suspended.acquire()
    assert suspended._beating is not None
    suspended._beating.cancel()
    other = GroupHold(connection, group, session_s=SESSION_S)
    deadline = time.monotonic() + 4 * SESSION_S
    while True:
        try:
            await other.acquire()
            break
        except GroupTakenError:
            assert time.monotonic() < deadline, "the session of the first is over"
            await asyncio.sleep(0.2)
    try:
        await other.commit({TopicPartition(topic, 0): 5}, "")
        with pytest.raises(OvertakenError):
            suspended.require()
        suspended._until = time.monotonic() + 100  # a clock that stood still as well: the broker decides
        with pytest.raises(OvertakenError, match="UnknownMemberIdError"):
            await suspended.commit({TopicPartition(topic, 0): 1}, "")
        assert (await admin.committed(group))[TopicPartition(topic, 0)] == (5, "")
    finally:
        await suspended.release()
        await other.release()
