"""A writer of records with a header of ours, one at a time and in order; and a reader of the keys of a compacted
topic.

It is for code that writes on behalf of a process; a Faust worker has its own producer, and a restore transfers records
in bulk (`bulk`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from aiokafka import errors

from snapkafka.errors import BadInputError
from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import HEADER

from .to_end import records_to_end


class UnsettledError(Exception):
    """An unknown outcome of a send: a time-out, a lost connection."""


class KafkaWriter:
    """One idempotent producer (acks=all), which connects when first used."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._producer: Any = None

    async def _connected(self) -> Any:
        if self._producer is None:
            producer = clients.producer(self._connection, acks="all", enable_idempotence=True, linger_ms=0)
            with translated(self._connection, "connect a producer"):
                self._producer = await clients.started(producer)
        return self._producer

    async def partition_of(self, topic: str, key: bytes | None) -> int:
        """Choose the partition of a key as Kafka's own producers do (murmur2).

        Raises:
            BadInputError: there is no such topic.
            BrokerUnavailableError: no broker answers.
        """
        producer = await self._connected()
        with translated(self._connection, f"ask for the partitions of {topic}"):
            try:
                await producer.partitions_for(topic)
            except errors.UnknownTopicOrPartitionError:
                raise BadInputError(f"there is no topic {topic}", hint="create it first") from None
        return int(producer._partition(topic, None, None, None, key, None))

    async def append(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes
    ) -> Awaitable[int]:
        """Hand a record to the producer, in the order of the calls.

        Returns:
            an awaitable of its offset; it raises `UnsettledError` if the outcome is unknown.

        Raises:
            SnapkafkaError: nothing was appended.
        """
        producer = await self._connected()
        with translated(self._connection, f"append to {tp}"):
            due = await producer.send(
                tp.topic, value, key, partition=tp.partition, headers=[(HEADER, header)]
            )

        async def settled() -> int:
            try:
                return int((await due).offset)
            except errors.KafkaError as error:
                raise UnsettledError(f"{type(error).__name__}: {error}") from error

        return settled()

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]:
        """Read a compacted partition to its end; return the keys whose last record has a value.

        Raises:
            BrokerUnavailableError, LedgerUnusableError: it cannot be read.
        """
        keys: set[bytes] = set()
        async for _, record in records_to_end(self._connection, {tp: 0}):
            if record.key is not None:
                (keys.discard if record.value is None else keys.add)(record.key)
        return keys

    async def close(self) -> None:
        """Close the connections."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()
