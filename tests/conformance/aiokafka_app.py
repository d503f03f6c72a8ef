"""A service of the scenarios with aiokafka: `python -m tests.conformance.aiokafka_app ROLE`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError

from snapkafka.clients import participant
from snapkafka.drivers import Table
from tests.conformance.damage import damage
from tests.conformance.money import Names, Role, partition_of, process


async def main(role: Role) -> None:
    names, where = Names.from_environment(), os.environ["SNAPKAFKA_BOOTSTRAP"]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=where,
        group_id=names.app(role),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )
    producer = AIOKafkaProducer(bootstrap_servers=where, enable_idempotence=True)
    table = Table(names.table(role), default=int)
    async with producer, consumer:
        part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, part.stop)
        async with part:
            async for message in part.poll():
                async with part.event(message):
                    assert not message.headers
                    key = message.key.decode()
                    sent = process(names, role, message.topic, key, int(message.value), table)
                    if sent is not None:
                        await producer.send(sent[0], str(sent[1]).encode(), message.key, partition_of(key))
                await producer.flush()
                place = TopicPartition(message.topic, message.partition)
                with contextlib.suppress(CommitFailedError):  # rebalanced meanwhile: it is processed again
                    await consumer.commit({place: message.offset + 1})


if __name__ == "__main__":
    damage()
    asyncio.run(main(cast(Role, sys.argv[1])))
