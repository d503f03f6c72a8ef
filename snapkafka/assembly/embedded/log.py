"""The records of exact offset ranges, in memory, with the content of our header."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from xxhash import xxh64_intdigest

from snapkafka.checks import LogRecord, ReadRange
from snapkafka.checks.log import EXTERNAL
from snapkafka.errors import (
    BrokerUnavailableError,
    LedgerUnusableError,
    OffsetsGoneError,
    TimedOutError,
    Verb,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import client_settings
from snapkafka.protocol.records import TopicPartition
from snapkafka.store.row_digests import SEED
from snapkafka.wire import headers as wire

from .handover import HandOverError

#: Keys, values and headers that are held in memory at most.
BYTES_MAX: Final = 256 << 20
#: Messages taken from the client at once.
BATCH: Final = 1_000
#: No record comes of a range within this time: it is given up.
IDLE_S: Final = 30.0
#: The same client id as Spark's, for quotas.
CLIENT_ID: Final = "snapkafka-assembly"
#: Times that Spark's Kafka source can hold, in milliseconds: microseconds in 64 bits.
MS_MAX: Final = (1 << 63) // 1_000
#: Kafka's numbers of the types of timestamps, by librdkafka's.
TIMESTAMP_TYPES: Final = {1: 0, 2: 1}


class Record(NamedTuple):
    """A record and its stamp. `process` None: external. `cause`: (topic check, partition, offset); None: none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    process: int | None = None
    epoch: int = 0
    seq: int | None = None
    marker: bool = False
    cause: tuple[int, int, int] | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def for_checks(self, topics: Mapping[int, str] = MappingProxyType({})) -> LogRecord:
        """Return the facts that the checks need.

        Args:
            topics: the inputs of its sender's app, by their marks: any other cause is that of no event that is known.
        """
        cause = None
        if self.cause is not None:
            mark, partition, offset = self.cause
            cause = (TopicPartition(topics.get(mark, f"#{mark}"), partition), offset)
        return LogRecord(
            self.topic,
            self.partition,
            self.offset,
            EXTERNAL if self.process is None else self.process,
            self.epoch,
            -1 if self.seq is None else self.seq,
            self.marker,
            cause,
            None if self.key is None else xxh64_intdigest(self.key, SEED),
        )


def stamped(record: Record, ledger_id: int) -> Record:
    """Add the content of our header, if it has one of this ledger and partition."""
    header = wire.find(list(record.headers))
    if header is None:
        return record
    found = wire.read(header, ledger_id, wire.tp_check(record.topic, record.partition))
    if found is None:
        return record
    return record._replace(
        process=found.process, epoch=found.epoch, seq=found.seq, marker=found.marker, cause=found.cause
    )


class Log:
    """A reader of exact ranges for one ledger.

    Args:
        isolation: "read_committed": without aborted records.
    """

    def __init__(self, connection: Connection, ledger_id: int, isolation: str) -> None:
        self._settings = client_settings(connection) | {
            "client.id": CLIENT_ID,
            "group.id": CLIENT_ID,  # nothing is ever committed under it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
        }
        self._ledger_id = ledger_id
        self._bytes = 0

    def read(self, ranges: Sequence[ReadRange], *, lenient: bool = False) -> list[Record]:
        """Return the records of ranges, one per partition, in the order of each.

        Args:
            lenient: leave out partitions whose records are deleted.

        Raises:
            HandOverError: there is more than memory is meant for, or a record that this engine cannot hold.
            OffsetsGoneError: records were deleted.
            BrokerUnavailableError, LedgerUnusableError, TimedOutError: they cannot be read.
        """
        return [stamped(record, self._ledger_id) for record in self._messages(ranges, lenient)]

    def still_there(self, wanted: Iterable[ReadRange]) -> set[TopicPartition]:
        """Return the partitions of which the log still holds these records, one each."""
        return {record.tp for record in self._messages(list(wanted), False)}

    def _messages(self, ranges: Sequence[ReadRange], lenient: bool) -> Iterator[Record]:
        from confluent_kafka import Consumer, KafkaError
        from confluent_kafka import TopicPartition as KafkaPartition

        wanted = [item for item in ranges if item.start < item.end]
        ends = {(item.topic, item.partition): item.end for item in wanted}
        due = {(item.topic, item.partition): item.start for item in wanted}
        if not ends:
            return
        consumer = Consumer(self._settings)
        try:
            consumer.assign([KafkaPartition(item.topic, item.partition, item.start) for item in wanted])
            latest = time.monotonic()
            while ends:
                for message in consumer.consume(BATCH, 0.2):
                    latest = time.monotonic()
                    place, error = (message.topic(), message.partition()), message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        if lenient and error.code() in _gone():
                            ends.pop(place, None)
                            continue
                        raise _refused(place, error)
                    if place not in ends:
                        continue
                    if message.offset() >= ends[place]:
                        del ends[place]
                    elif error is None:
                        if message.offset() < due[place]:
                            raise _written_again(place, message.offset())
                        due[place] = message.offset() + 1
                        yield self._record(message)
                        if message.offset() + 1 >= ends[place]:
                            del ends[place]
                if time.monotonic() - latest > IDLE_S:
                    names = ", ".join(f"{topic}[{partition}]" for topic, partition in sorted(ends))
                    raise TimedOutError(
                        f"no record came of {names} for {IDLE_S:g} s",
                        hint="check that the partition has a leader",
                    )
        finally:
            consumer.close()

    def _record(self, message: Any) -> Record:
        kind, at_ms = message.timestamp()
        headers = tuple(message.headers() or ())
        key, value = message.key(), message.value()
        self._bytes += len(key or b"") + len(value or b"") + sum(len(of or b"") for _, of in headers)
        if self._bytes > BYTES_MAX:
            raise HandOverError(f"records of more than {BYTES_MAX >> 20} MB")
        if kind not in TIMESTAMP_TYPES or abs(at_ms) > MS_MAX:
            raise HandOverError(
                f"the timestamp of {message.topic()}[{message.partition()}] offset {message.offset()}"
            )
        return Record(
            message.topic(),
            message.partition(),
            message.offset(),
            at_ms,
            TIMESTAMP_TYPES[kind],
            key,
            value,
            headers,
        )


def _gone() -> tuple[int, ...]:
    from confluent_kafka import KafkaError

    return (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


def _written_again(place: tuple[str, int], offset: int) -> OffsetsGoneError:
    return OffsetsGoneError(
        f"records were deleted while they were read: {place[0]}[{place[1]}] goes back to offset {offset}"
    )


def _refused(place: tuple[str, int], error: Any) -> Exception:
    from confluent_kafka import KafkaError

    what = f"could not read {place[0]}[{place[1]}]: {error.str()}"
    if error.code() in _gone():
        return OffsetsGoneError(f"records were deleted while they were read: {what}")
    if error.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    ):
        return OffsetsGoneError(f"a topic was deleted while it was read: {what}")
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        return LedgerUnusableError(
            f"not allowed to read what the snapshot needs: {what}",
            hint=(Verb("doctor", options=("acls",)), " prints the rights that the assembly job needs"),
        )
    return BrokerUnavailableError(what)
