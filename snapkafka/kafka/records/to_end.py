"""The records of partitions from positions to the ends of their logs, or the first of each. `bulk` reads many records,
`read` goes on at the end."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import Tries

#: Where one record of each partition is wanted, and not what comes behind it; a larger one is sent all the same.
FETCH_BYTES_MAX: Final = 4_096
#: Partitions that nothing has come of by then are reported as having no record.
WITHIN_S: Final = 10.0
POLL_MS: Final = 200


async def records_to_end(
    connection: Connection,
    positions: Mapping[TopicPartition, int],
    what: str = "read",
    *,
    first: bool = False,
    committed: Mapping[Any, int] | None = None,
) -> AsyncIterator[tuple[TopicPartition, Any]]:
    """Read records, also those of aborted transactions, from positions to the present ends of their logs.

    Args:
        positions: the offsets to start from; one that was deleted counts as that of the first record.
        what: what is done, for errors.
        first: only the first record of each partition, and within `WITHIN_S`.
        committed: read to these ends, and no records of aborted transactions.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: they cannot be read.
    """
    if not positions:
        return
    more: dict[str, Any] = {"max_partition_fetch_bytes": FETCH_BYTES_MAX} if first else {}
    more |= {} if committed is None else {"isolation_level": "read_committed"}
    consumer = clients.consumer(connection, group_id=None, auto_offset_reset="earliest", **more)
    topics = ", ".join(sorted({tp.topic for tp in positions}))
    async with translated(connection, f"{what} {topics}"):
        try:
            await consumer.start()
            unread = {KafkaPartition(*tp) for tp in positions}
            consumer.assign(unread)
            for tp, offset in positions.items():
                consumer.seek(KafkaPartition(*tp), offset)
            ends = {**await consumer.end_offsets(unread), **(committed or {})}
            # Where only markers of transactions are left, nothing comes, and the position is moved all the same.
            unread = {tp for tp in unread if await consumer.position(tp) < ends[tp]}
            async for _ in Tries(WITHIN_S if first else math.inf, every_s=0):
                if not unread:
                    return
                for tp, records in (await consumer.getmany(*unread, timeout_ms=POLL_MS)).items():
                    for record in records[:1] if first else records:
                        if record.offset < ends[tp]:
                            yield TopicPartition(tp.topic, tp.partition), record
                    if first and records:
                        unread.discard(tp)
                unread = {tp for tp in unread if await consumer.position(tp) < ends[tp]}
        finally:
            await consumer.stop()
