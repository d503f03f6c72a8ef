"""Facts about one record of each partition: when it was written, and its headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition

#: A record is wanted of each partition, and not what comes behind it; a larger one is sent all the same.
FETCH_BYTES_MAX: Final = 4_096
#: Partitions that nothing has come of by then are told as having no record.
WITHIN_S: Final = 10.0
POLL_MS: Final = 200


async def record_times(
    connection: Connection, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return when the first record at or past an offset was written, in ms since 1970; partitions without one are left
    out.

    Args:
        positions: where to look; offsets within the log.
    """
    found = await _first_records(connection, positions, "read the age of")
    return {tp: int(record.timestamp) for tp, record in found.items()}


async def record_headers(
    connection: Connection, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, tuple[tuple[str, bytes | None], ...]]:
    """Return the headers of the record at an offset, for each partition that has one there.

    Args:
        positions: where to look; offsets within the log.
    """
    found = await _first_records(connection, positions, "read headers of")
    return {tp: tuple(record.headers) for tp, record in found.items() if record.offset == positions[tp]}


async def _first_records(
    connection: Connection, positions: Mapping[TopicPartition, int], what: str
) -> dict[TopicPartition, Any]:
    found: dict[TopicPartition, Any] = {}
    if not positions:
        return found
    consumer = clients.consumer(connection, group_id=None, max_partition_fetch_bytes=FETCH_BYTES_MAX)
    topics = ", ".join(sorted({tp.topic for tp in positions}))
    async with translated(connection, f"{what} {topics}"):
        try:
            await consumer.start()
            open_ones = {KafkaPartition(*tp) for tp in positions}
            consumer.assign(open_ones)
            for tp, offset in positions.items():
                consumer.seek(KafkaPartition(*tp), offset)
            ends = await consumer.end_offsets(open_ones)
            deadline = asyncio.get_running_loop().time() + WITHIN_S
            while open_ones and asyncio.get_running_loop().time() < deadline:
                for tp, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
                    found.setdefault(TopicPartition(tp.topic, tp.partition), records[0])
                    consumer.pause(tp)
                    open_ones.discard(tp)
                # Where only markers of transactions are left, nothing comes, and the position is moved all the same.
                open_ones -= {tp for tp in open_ones if await consumer.position(tp) >= ends[tp]}
        finally:
            await consumer.stop()
    return found
