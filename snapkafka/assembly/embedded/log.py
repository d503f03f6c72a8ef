"""The records of exact offset ranges, in memory, with the content of our header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from xxhash import xxh64_intdigest

from snapkafka.checks import CutView, LogRecord, ReadRange, mark_of
from snapkafka.checks.log import EXTERNAL, place
from snapkafka.errors import (
    BrokerUnavailableError,
    LedgerUnusableError,
    OffsetsGoneError,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import client_settings
from snapkafka.kafka.records.exact_ranges import headers_of, messages_of
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .handover import HandOverError

#: Keys, values and headers that are held in memory at most.
BYTES_MAX: Final = 256 << 20
#: The same client id as Spark's, for quotas.
CLIENT_ID: Final = "snapkafka-assembly"
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
        return place(self.topic, self.partition)

    def for_checks(self, view: CutView) -> LogRecord:
        """Return the facts that the checks of a snapshot need."""
        cause = None
        if self.cause is not None and self.process is not None:
            check, partition, offset = self.cause
            cause = (view.input_named(self.process, mark_of(check, partition)), offset)
        return LogRecord(
            self.topic,
            self.partition,
            self.offset,
            EXTERNAL if self.process is None else self.process,
            self.epoch,
            -1 if self.seq is None else self.seq,
            self.marker,
            cause,
            None if self.key is None else xxh64_intdigest(self.key),
        )


def stamped(record: Record, ledger_id: int) -> Record:
    """Add the content of our header, if it has one of this ledger and partition."""
    header = wire.find(list(record.headers)) if record.headers else None
    if header is None:
        return record
    found = wire.read(header, ledger_id, wire.tp_check(record.topic, record.partition))
    if found is None:
        return record
    return Record(*record[:8], found.process, found.epoch, found.seq, found.marker, found.cause)


class Log:
    """A reader of exact ranges for one ledger.

    Args:
        isolation: "read_committed": without aborted records.
    """

    def __init__(self, connection: Connection, ledger_id: int, isolation: str) -> None:
        self._settings = client_settings(connection) | {
            "client.id": CLIENT_ID,
            "group.id": CLIENT_ID,
            "isolation.level": isolation,
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
        return [stamped(record, self._ledger_id) for record in self._records(ranges, lenient=lenient)]

    def still_there(self, wanted: Iterable[ReadRange]) -> set[TopicPartition]:
        """Return the partitions of which the log still holds these records, one each."""
        return {record.tp for record in self._records(wanted)}

    def _records(self, ranges: Iterable[ReadRange], *, lenient: bool = False) -> Iterator[Record]:
        wanted = [(item.topic, item.partition, item.start, item.end) for item in ranges]
        return map(self._record, messages_of(self._settings, wanted, partial(_refuse, lenient=lenient)))

    def _record(self, message: Any) -> Record:
        kind, at_ms = message.timestamp()
        try:
            headers = tuple(headers_of(message))
        except UnicodeError as error:
            raise HandOverError(str(error)) from error
        key, value = message.key(), message.value()
        self._bytes += len(key or b"") + len(value or b"") + sum(len(of or b"") for _, of in headers)
        if self._bytes > BYTES_MAX:
            raise HandOverError(f"records of more than {BYTES_MAX >> 20} MB")
        if kind not in TIMESTAMP_TYPES:
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


def _refuse(topic: str, partition: int, error: Any, *, lenient: bool) -> None:
    from confluent_kafka import KafkaError

    if lenient and error.code() in _gone():
        return
    what = f"could not read {topic}[{partition}]: {error.str()}"
    if error.code() in _gone():
        raise OffsetsGoneError(f"records were deleted while they were read: {what}")
    if error.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    ):
        raise OffsetsGoneError(f"a topic was deleted while it was read: {what}")
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        raise LedgerUnusableError(
            f"not allowed to read what the snapshot needs: {what}",
            hint="docs/reference/ledger.md lists the rights that the assembly job needs",
        )
    raise BrokerUnavailableError(what)
