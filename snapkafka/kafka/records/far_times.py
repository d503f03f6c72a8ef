"""Records whose times Spark's Kafka source cannot read: it counts microseconds in 64 bits, and one record past that
ends the job. They come of producers that write nanoseconds where Kafka has milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition as KafkaPartition

from snapkafka.errors import BadInputError
from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition

#: The last time that Spark can read, in milliseconds.
READABLE_MS_MAX: Final = (2**63 - 1) // 1_000
#: Keys and values from the first to the last such record, over all partitions; they are held in memory.
BYTES_MAX: Final = 64 * 1024 * 1024
POLL_MS: Final = 200


class SourceRow(NamedTuple):
    """A record as a row of the assembly's source."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class FarStretch(NamedTuple):
    """The records of a partition from its first unreadable time to its last, `end` excluded."""

    tp: TopicPartition
    start: int
    end: int
    rows: tuple[SourceRow, ...]

    def __str__(self) -> str:
        first, count = self.rows[0], sum(row.timestamp_ms > READABLE_MS_MAX for row in self.rows)
        others = f", and {count - 1} more up to offset {self.end - 1}" if count > 1 else ""
        return (
            f"{self.tp} offset {first.offset} has the timestamp {first.timestamp_ms} (nanoseconds?){others}"
        )


async def far_stretches(
    connection: Connection, partitions: Collection[TopicPartition], *, isolation: str
) -> tuple[FarStretch, ...]:
    """Return the stretches of these partitions, which exist. The broker finds the first record of each by its index.

    Raises:
        BadInputError: too much lies between the first such record and the last.
        BrokerUnavailableError, LedgerUnusableError: they cannot be read.
    """
    if not partitions:
        return ()
    consumer = clients.consumer(
        connection, group_id=None, isolation_level=isolation, auto_offset_reset="earliest"
    )
    async with translated(connection, "look for times that cannot be read"):
        try:
            await consumer.start()
            found = await consumer.offsets_for_times(
                {KafkaPartition(*tp): READABLE_MS_MAX + 1 for tp in partitions}
            )
            starts = {tp: at.offset for tp, at in found.items() if at is not None}
            return tuple(await _read(consumer, starts)) if starts else ()
        finally:
            await consumer.stop()


async def _read(consumer: Any, starts: Mapping[Any, int]) -> list[FarStretch]:
    """Read the partitions from their starts to their ends, and keep what lies up to the last unreadable time."""
    consumer.assign(list(starts))
    for tp, offset in starts.items():
        consumer.seek(tp, offset)
    ends = await consumer.end_offsets(list(starts))
    stretches: dict[Any, list[SourceRow]] = defaultdict(list)
    pending: dict[Any, list[SourceRow] | None] = {tp: [] for tp in starts}
    size = 0
    open_ones = set(starts)
    while open_ones:
        for tp, records in (await consumer.getmany(*open_ones, timeout_ms=POLL_MS)).items():
            for record in records:
                row = _row(record)
                behind = pending[tp]
                if behind is not None:
                    behind.append(row)
                    size += len(row.key or b"") + len(row.value or b"") + 100
                    if size > BYTES_MAX:
                        size -= sum(len(it.key or b"") + len(it.value or b"") + 100 for it in behind)
                        pending[tp] = behind = None
                if row.timestamp_ms > READABLE_MS_MAX:
                    if behind is None:
                        raise _too_much(tp, starts[tp], row)
                    stretches[tp] += behind
                    pending[tp] = []
        open_ones = {tp for tp in open_ones if await consumer.position(tp) < ends[tp]}
    return [
        FarStretch(TopicPartition(*tp), starts[tp], rows[-1].offset + 1, tuple(rows))
        for tp, rows in sorted(stretches.items())
    ]


def _row(record: Any) -> SourceRow:
    return SourceRow(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        record.key,
        record.value,
        list(record.headers),
    )


def _too_much(tp: Any, first: int, row: SourceRow) -> BadInputError:
    return BadInputError(
        f"{TopicPartition(*tp)}, offsets {first} to {row.offset}: Spark cannot read these times"
        f" ({row.timestamp_ms}: nanoseconds?)",
        hint="let the producer write milliseconds (message.timestamp.after.max.ms); delete these records",
    )
