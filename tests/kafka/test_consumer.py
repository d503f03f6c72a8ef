"""Partitions read for a process that does not speak Kafka, on a real broker: positions, commits, what is deleted."""

from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from snapkafka.drivers.remote.inputs import Input, resolve
from snapkafka.errors import LedgerUnusableError, OffsetsGoneError, TriggerRefusedError
from snapkafka.kafka import Connection, KafkaRecord, KafkaTopicAdmin
from snapkafka.kafka.records.read import KafkaConsumer
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.kafka.waiting import until


class Side:
    """A topic of two partitions, its consumer, and an admin client."""

    def __init__(self, kafka: Broker, namespace: str) -> None:
        self.bootstrap, self.group = kafka.bootstrap, f"{namespace}-till"
        self.topic = f"{namespace}-change"
        create_topics(kafka.bootstrap, self.topic, partitions=2)
        self.tps = [TopicPartition(self.topic, number) for number in range(2)]
        self.connection = Connection(bootstrap=kafka.bootstrap)
        self.admin = KafkaTopicAdmin(self.connection)
        self.consumer = KafkaConsumer(self.connection, self.group, bytes_max=1_000_000)

    async def put(self, *values: bytes, partition: int = 0, aborted: bool = False) -> None:
        async with AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=f"{self.group}-{aborted}"
        ) as producer:
            await producer.begin_transaction()
            for value in values:
                await producer.send_and_wait(
                    self.topic, value, key=b"k", partition=partition, headers=[("_sk", value)]
                )
            await (producer.abort_transaction if aborted else producer.commit_transaction)()

    async def read(self, count: int, *tps: TopicPartition) -> list[KafkaRecord]:
        found: list[KafkaRecord] = []

        async def enough() -> bool:
            found.extend(await self.consumer.read(tps or self.tps, 200))
            return len(found) >= count

        await until(enough)
        return found


@pytest.fixture
async def side(kafka: Broker, namespace: str) -> AsyncIterator[Side]:
    found = Side(kafka, namespace)
    yield found
    await found.consumer.close()
    await found.admin.close()


async def test_it_reads_from_positions_in_order_and_nothing_of_an_aborted_transaction(side: Side) -> None:
    await side.put(b"0", b"1", b"2")
    await side.put(b"never", aborted=True)
    await side.put(b"3")
    await side.put(b"other", partition=1)
    starts = await resolve(side.admin, side.group, [Input(topic=side.topic, positions={0: 1})])
    assert starts.positions == dict(zip(side.tps, (1, 0), strict=True))
    assert starts.topics[0].topic_id == (await side.admin.describe_topics([side.topic]))[side.topic].topic_id
    await side.consumer.start(starts.positions)
    found = await side.read(4)
    assert [(r.offset, r.value, r.header) for r in found if r.tp.partition == 0] == [
        (1, b"1", b"1"),
        (2, b"2", b"2"),
        (6, b"3", b"3"),  # past the end of a transaction, an aborted one, and its end
    ]
    assert [(r.offset, r.key, r.value) for r in found if r.tp.partition == 1] == [(0, b"k", b"other")]
    assert all(record.timestamp_ms > 1_600_000_000_000 for record in found)
    side.consumer.seek({side.tps[0]: 2})
    assert [r.value for r in await side.read(2, side.tps[0])] == [b"2", b"3"]


async def test_it_commits_without_being_a_member_and_not_beside_one(side: Side) -> None:
    await side.put(b"0", b"1")
    await side.consumer.start(dict.fromkeys(side.tps, 0))
    await side.read(2)
    await side.consumer.commit({side.tps[0]: 1})
    await side.consumer.commit({side.tps[0]: 2, side.tps[1]: 0})
    assert not await side.admin.group_members(side.group)
    committed = await side.admin.committed(side.group)
    assert committed == {side.tps[0]: (2, ""), side.tps[1]: (0, "")}
    inputs = [Input(topic=side.topic)]
    assert (await resolve(side.admin, side.group, inputs)).positions[side.tps[0]] == 2
    async with AIOKafkaConsumer(side.topic, group_id=side.group, bootstrap_servers=side.bootstrap) as member:

        async def assigned() -> bool:
            return len(member.assignment()) == 2

        await until(assigned)
        with pytest.raises(LedgerUnusableError):
            await side.consumer.commit({side.tps[0]: 1})
        with pytest.raises(TriggerRefusedError, match="has 1 members"):
            await resolve(side.admin, side.group, inputs)


async def test_what_was_deleted_is_reported_and_never_skipped(side: Side) -> None:
    await side.put(b"0", b"1", b"2")
    await side.admin.delete_records(side.tps[0], 2)
    await side.consumer.start(dict.fromkeys(side.tps, 0))
    with pytest.raises(OffsetsGoneError):
        await side.read(1)
    side.consumer.seek({side.tps[0]: 2})
    assert [record.value for record in await side.read(1)] == [b"2"]
    with pytest.raises(OffsetsGoneError, match="given position 1"):
        await resolve(side.admin, side.group, [Input(topic=side.topic, positions={0: 1})])
