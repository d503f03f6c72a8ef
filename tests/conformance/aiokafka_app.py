"""A service of the scenarios with aiokafka: `python -m tests.conformance.aiokafka_app ROLE`.

`CONFORMANCE_HOW`: "tx": it is exactly-once, with ten messages in a transaction, of which it aborts one in five.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError

from snapkafka.clients import participant
from snapkafka.drivers import Table
from tests.conformance.damage import damage
from tests.conformance.money import Names, Role, partition_of, process, sought


async def main(role: Role, *, tx: bool) -> None:
    names, where = Names.from_environment(), os.environ["SNAPKAFKA_BOOTSTRAP"]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=where,
        group_id=names.app(role),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        partition_assignment_strategy=(RangePartitionAssignor,),
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
    )
    sends: dict[str, Any] = {"transactional_id": names.app(role)} if tx else {"enable_idempotence": True}
    producer = AIOKafkaProducer(bootstrap_servers=where, **sends)
    table, number = Table(names.table(role), default=int), 0
    part = participant(consumer=consumer, producer=producer, inputs=names.inputs(role), state=table)

    async def work(message: Any) -> dict[TopicPartition, int]:
        """Process a message; return the position behind it."""
        async with part.event(message):
            assert not message.headers
            key = message.key.decode()
            sent = process(names, role, message.topic, key, int(message.value), table)
            if sent is not None:
                await producer.send(sent[0], str(sent[1]).encode(), message.key, partition_of(key))
        return {TopicPartition(message.topic, message.partition): message.offset + 1}

    async with producer, consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, part.stop)
        async with part:
            while tx and not part.stopping:
                offsets: dict[TopicPartition, int] = {}
                done = 0
                async for message in part.poll(quiet_s=0.1):
                    if not done:
                        await producer.begin_transaction()
                    offsets |= await work(message)
                    if (done := done + 1) == 10:
                        break
                number += bool(done)
                if done and number % 5 == 0:
                    await producer.abort_transaction()
                    await part.rewind()
                elif done:
                    await producer.send_offsets_to_transaction(offsets, names.app(role))
                    await producer.commit_transaction()
            async for message in part.poll():
                position = await work(message)
                await producer.flush()
                with contextlib.suppress(CommitFailedError):  # rebalanced meanwhile: it is processed again
                    await consumer.commit(position)
                if (to := sought(message.value)) is not None:
                    consumer.seek(*position, to)


if __name__ == "__main__":
    damage()
    asyncio.run(main(cast(Role, sys.argv[1]), tx=os.environ["CONFORMANCE_HOW"] == "tx"))
