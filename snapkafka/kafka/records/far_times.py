"""Records whose times Spark's Kafka source cannot read: it counts microseconds in 64 bits, and one record past that
ends the job. They come of producers that write nanoseconds where Kafka has milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition

#: The last time that Spark can read, in milliseconds.
READABLE_MS_MAX: Final = (2**63 - 1) // 1_000


async def first_far(connection: Connection, partitions: Collection[TopicPartition]) -> str:
    """Name the first such record of these partitions, which exist; the broker finds it by its index.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: they cannot be asked about.
    """
    consumer = clients.consumer(connection, group_id=None)
    async with translated(connection, "look for times that cannot be read"):
        try:
            await consumer.start()
            found = await consumer.offsets_for_times(
                {KafkaPartition(*tp): READABLE_MS_MAX + 1 for tp in partitions}
            )
        finally:
            await consumer.stop()
    first = ((tp, at) for tp, at in sorted(found.items()) if at is not None)
    return next(
        (f"{TopicPartition(*tp)} offset {at.offset} has the timestamp {at.timestamp}" for tp, at in first), ""
    )
