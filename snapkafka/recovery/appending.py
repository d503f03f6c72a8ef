"""Records that a restore appends: stamped by its own process, and compared with the log afterwards.

The author is a new process, so its sequence numbers begin at 0 in each partition, and its records have no cause: they
come from no event. Without a stamp the next restore would take these records for external ones, and append them again;
with the old stamps V1 would report each of them as a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

Headers = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to append. `timestamp_ms`: its own; None: the time of the append."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Bulk(Protocol):
    """A reader and writer of many records; each call blocks."""

    def read(self, ranges: Sequence[ReadRange]) -> Iterator[KafkaRecord]:
        """Read committed records at offsets [start, end), in the order of each partition."""

    def append(self, records: Iterable[NewRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records in this order per partition, by one idempotent producer and outside any transaction; return
        the offsets of each partition's records, which rise in this order."""

    def stable_ends(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Read the offsets below which no transaction is open."""


class Author:
    """The process of a restore, which stamps the records that it appends.

    Args:
        process: its id, the ledger offset of its `Hello`.
        epoch: the highest one below that.
        ledger_id: see `wire.headers.ledger_id`.
    """

    def __init__(self, process: int, epoch: int, ledger_id: int) -> None:
        self.process = process
        self.epoch = epoch
        self.ledger_id = ledger_id
        self._numbers: Counter[tuple[str, int]] = Counter()

    def stamped(self, record: NewRecord) -> NewRecord:
        """Stamp a record; a header of ours that it has is replaced."""
        topic, partition, key, value, headers, timestamp_ms = record
        number = self._numbers[topic, partition]
        self._numbers[topic, partition] += 1
        own = tuple(wire.without_header(headers)) if headers else ()
        stamp = wire.stamp(self.ledger_id, wire.tp_check(topic, partition), self.epoch, self.process, number)
        return NewRecord(topic, partition, key, value, (*own, (wire.HEADER, stamp)), timestamp_ms)

    def process_of(self, record: KafkaRecord) -> int | None:
        """Return the process that has stamped a record for this ledger; None: nobody."""
        header = wire.find(record.headers)
        stamp = None if header is None else wire.read(header, self.ledger_id, wire.tp_check(*record.tp))
        return None if stamp is None else stamp.process


def read_back(
    records: Iterable[KafkaRecord],
    author: Author,
    expected: Sequence[KafkaRecord] | None,
    allowed: Callable[[KafkaRecord], bool] = lambda record: False,
    named: Callable[[int], str] = lambda process: f"process {process}",
    *,
    timed: bool = True,
) -> None:
    """Check what lies above the base of a partition.

    Args:
        records: from the base to the end.
        expected: what was to be appended there, in order; None: that is compared otherwise.
        allowed: returns whether another writer may have appended this record meanwhile.
        named: returns a name for the sender of a stamp.
        timed: whether the topic keeps the times of records.

    Raises:
        RestoreFailedError: they differ, or another writer has written there; the attempt is void.
    """
    wanted = iter(expected or ())
    place = None
    for record in records:
        place, process = record.tp, author.process_of(record)
        if process != author.process:
            if not allowed(record):
                sender = "an external producer" if process is None else named(process)
                raise RestoreFailedError(
                    f"{sender} has written to {place} at offset {record.offset} during the restore",
                    hint="stop it, and run the same command again: nothing of this attempt counts",
                )
        elif expected is not None:
            message = next(wanted, None)
            if message is None or not _same(message, record, timed=timed):
                raise _wrong(f"the record at offset {record.offset} of {place}", "is not what was appended")
    if (message := next(wanted, None)) is not None:
        raise _wrong(f"the message of offset {message.offset} of {message.tp}", "was not appended")


def _same(message: KafkaRecord, record: KafkaRecord, *, timed: bool) -> bool:
    """Return whether both are one to a receiver. A record with timestamp 0 is appended again with 1."""
    own = (tuple(wire.without_header(it.headers)) for it in (message, record))
    return (
        (message.key, message.value) == (record.key, record.value)
        and next(own) == next(own)
        and (not timed or message.timestamp_ms < 0 or max(1, message.timestamp_ms) == record.timestamp_ms)
    )


def _wrong(what: str, how: str) -> RestoreFailedError:
    return RestoreFailedError(
        f"{what} {how}",
        hint="nothing is committed; run the same command again, and report it if it happens again",
    )
