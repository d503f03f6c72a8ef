"""Records that a restore appends: stamped by its own process, and compared with the log afterwards.

The author is a new process, so its sequence numbers begin at 0 in each partition, and its records have no cause: they
come from no event. Without a stamp the next restore would take these records for external ones, and append them again;
with the old stamps V1 would report each of them as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

Headers = tuple[tuple[str, bytes | None], ...]
_LENGTHS: Final = Struct(">qqq")


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


class Written:
    """The number of records appended to a partition, with a checksum over all of them in order."""

    __slots__ = ("check", "checksum", "records")

    def __init__(self, tp: TopicPartition) -> None:
        self.records = 0
        self.checksum = 0
        self.check = wire.tp_check(*tp)

    def add(self, key: bytes | None, value: bytes | None, headers: Headers, stamp: bytes) -> None:
        """Take in one more record."""
        framed = [_LENGTHS.pack(_size(key), _size(value), len(headers)), key or b"", value or b"", stamp]
        for name, of in headers:
            named = name.encode()
            framed += (_LENGTHS.pack(len(named), _size(of), 0), named, of or b"")
        self.checksum = crc32(b"".join(framed), self.checksum)
        self.records += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and (self.records, self.checksum) == (other.records, other.checksum)

    __hash__ = None  # type: ignore[assignment]  # it changes


class _ByPlace(dict[tuple[str, int], Written]):
    """The appended records by topic and partition."""

    def __missing__(self, place: tuple[str, int]) -> Written:
        found = self[place] = Written(TopicPartition(*place))
        return found


class Author:
    """The process of a restore: it stamps the records that it appends, and keeps a checksum of them.

    Args:
        process: its id, the ledger offset of its `Hello`.
        epoch: the highest one below that.
        ledger_id: see `wire.headers.ledger_id`.
    """

    def __init__(self, process: int, epoch: int, ledger_id: int) -> None:
        self.process = process
        self.epoch = epoch
        self.ledger_id = ledger_id
        self.written = _ByPlace()

    def stamped(self, record: NewRecord) -> NewRecord:
        """Stamp a record; a header of ours that it has is replaced."""
        topic, partition, key, value, headers, timestamp_ms = record
        written = self.written[topic, partition]
        own = tuple(wire.without_header(headers)) if headers else ()
        stamp = wire.stamp(self.ledger_id, written.check, self.epoch, self.process, written.records)
        written.add(key, value, own, stamp)
        return NewRecord(topic, partition, key, value, (*own, (wire.HEADER, stamp)), timestamp_ms)


def _size(item: bytes | None) -> int:
    return -1 if item is None else len(item)


def read_back(
    bulk: Bulk,
    author: Author,
    ranges: Sequence[ReadRange],
    allowed: Callable[[KafkaRecord], bool] = lambda record: False,
    named: Callable[[int], str] = lambda process: f"process {process}",
) -> None:
    """Compare the log with what was appended, byte by byte, by checksums.

    Args:
        ranges: from the base of each partition to its end.
        allowed: returns whether another writer may have appended this record meanwhile.
        named: returns a name for the sender of a stamp.

    Raises:
        RestoreFailedError: they differ, or another writer has written there; the attempt is void.
    """
    found = _ByPlace()
    for record in bulk.read([item for item in ranges if item.end > item.start]):
        header = wire.find(record.headers)
        so_far = found[record.topic, record.partition]
        stamp = None if header is None else wire.read(header, author.ledger_id, so_far.check)
        if header is not None and stamp is not None and stamp.process == author.process:
            so_far.add(record.key, record.value, tuple(wire.without_header(record.headers)), header)
        elif not allowed(record):
            sender = "an external producer" if stamp is None else named(stamp.process)
            raise RestoreFailedError(
                f"{sender} has written to {record.tp} at offset {record.offset} during the restore",
                hint="stop it, and run the same command again: nothing of this attempt counts",
            )
    for tp, written in sorted(author.written.items()):
        if found[tp] != written:
            raise RestoreFailedError(
                f"{TopicPartition(*tp)} holds {found[tp].records:,} of {written.records:,} appended records,"
                f" checksum {found[tp].checksum:08x} instead of {written.checksum:08x}",
                hint="run the same command again: nothing of this attempt counts",
            )
