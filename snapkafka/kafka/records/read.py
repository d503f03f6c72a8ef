"""The records of partitions to the ends of their logs, or the first of each; and a consumer of assigned partitions, for
code that reads on behalf of a process, which commits its positions.

The partitions are assigned by hand, so the group has no members and no rebalances; it only holds the positions.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition as KafkaPartition
from aiokafka import errors

from snapkafka.errors import LedgerUnusableError, OffsetsGoneError
from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import Tries
from snapkafka.wire.headers import find

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


#: Of one partition, in one answer of a broker: not more than Kafka's own default, and enough for a large batch.
PARTITION_BYTES: Final = range(64 * 1024, 1024 * 1024)
#: Records that one read hands out at most.
READ_MAX: Final = 200


class KafkaRecord(NamedTuple):
    """A record as it is in the log, or as it is appended. `timestamp_ms`: -1: none, or the time of the append."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def header(self) -> bytes | None:
        """The bytes of our header; None: it has none."""
        return find(list(self.headers))


class KafkaConsumer:
    """A consumer of partitions assigned by hand; it skips records of aborted transactions.

    Args:
        group: holds the positions.
        bytes_max: size of the records read ahead, over all partitions.
    """

    def __init__(self, connection: Connection, group: str, *, bytes_max: int) -> None:
        self._connection, self._group, self._bytes_max = connection, group, bytes_max
        self._consumer: Any = None

    async def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Connect, and read these partitions from these offsets on.

        Raises:
            SnapkafkaError: Kafka cannot be used.
        """
        share = self._bytes_max // len(positions)
        consumer = clients.consumer(
            self._connection,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="none",  # what was deleted is reported, never skipped
            isolation_level="read_committed",
            fetch_max_bytes=self._bytes_max,
            max_partition_fetch_bytes=min(max(share, PARTITION_BYTES.start), PARTITION_BYTES.stop),
        )
        async with translated(self._connection, "connect a consumer"):
            await clients.started(consumer)
        self._consumer = consumer
        consumer.assign([KafkaPartition(*tp) for tp in positions])
        self.seek(positions)

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """Continue from these offsets; not while a `read` is in progress."""
        for tp, offset in positions.items():
            self._consumer.seek(KafkaPartition(*tp), offset)

    async def read(self, tps: Collection[TopicPartition], within_ms: int) -> list[KafkaRecord]:
        """Read the next records of these partitions, each in its order; none if none come in that time.

        Raises:
            OffsetsGoneError: the next record was deleted.
            SnapkafkaError: it cannot be read.
        """
        wanted = [KafkaPartition(*tp) for tp in tps]
        with translated(self._connection, "read " + ", ".join(sorted({tp.topic for tp in tps}))):
            try:
                found = await self._consumer.getmany(*wanted, timeout_ms=within_ms, max_records=READ_MAX)
            except errors.OffsetOutOfRangeError as error:
                raise OffsetsGoneError(
                    f"records that are not processed were deleted: {error}",
                    hint="join again, with the positions to go on from; raise retention.ms of the topic",
                ) from error
        return [
            KafkaRecord(tp.topic, tp.partition, it.offset, it.key, it.value, tuple(it.headers), it.timestamp)
            for tp, records in found.items()
            for it in records
        ]

    async def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions for the group.

        Raises:
            LedgerUnusableError: the group has members, or committing is unauthorized.
            BrokerUnavailableError: no broker answers.
        """
        with translated(self._connection, f"commit positions for group {self._group}"):
            try:
                await self._consumer.commit({KafkaPartition(*tp): at for tp, at in positions.items()})
            except errors.CommitFailedError as error:
                raise LedgerUnusableError(
                    f"could not commit positions for group {self._group}: it has members",
                    hint="stop them, or join by another node_id: its consumer group is named after it",
                ) from error

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]:
        """Read a compacted partition to its end; return the keys whose last record has a value."""
        keys: set[bytes] = set()
        async for _, record in records_to_end(self._connection, {tp: 0}):
            if record.key is not None:
                (keys.discard if record.value is None else keys.add)(record.key)
        return keys

    async def close(self) -> None:
        """Close the connections."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()
