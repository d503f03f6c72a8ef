"""A service of the scenarios that is exactly-once, with aiokafka; it aborts one transaction in five."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from snapkafka.clients import participant
from snapkafka.drivers import Table
from tests.conformance.money import Names, Role, partition_of, process


async def main(role: Role) -> None:
    names, where = Names.from_environment(), os.environ["SNAPKAFKA_BOOTSTRAP"]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=where,
        group_id=names.app(role),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=(RangePartitionAssignor,),
    )
    producer = AIOKafkaProducer(bootstrap_servers=where, transactional_id=names.app(role))
    table, number = Table(names.table(role), default=int), 0
    async with producer, consumer:
        part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, part.stop)
        async with part:
            while not part.stopping:
                offsets: dict[Any, int] = {}
                done = 0
                async for message in part.poll(quiet_s=0.1):
                    if not done:
                        await producer.begin_transaction()
                    async with part.event(message):
                        key = message.key.decode()
                        sent = process(names, role, message.topic, key, int(message.value), table)
                        if sent is not None:
                            await producer.send(
                                sent[0], str(sent[1]).encode(), message.key, partition_of(key)
                            )
                    offsets[TopicPartition(message.topic, message.partition)] = message.offset + 1
                    if (done := done + 1) == 10:
                        break
                if not done:
                    continue
                number += 1
                if number % 5 == 0:
                    await producer.abort_transaction()
                    await part.rewind()
                    continue
                await producer.send_offsets_to_transaction(offsets, names.app(role))
                await producer.commit_transaction()


if __name__ == "__main__":
    asyncio.run(main(cast(Role, sys.argv[1])))
