"""Records that a restore appends: stamped by its own process, and compared with the log afterwards.

The author is a new process, so its sequence numbers begin at 0 in each partition, and it is the cause of nothing: what
it appends comes from no event. Without a stamp the next restore would take these records for external ones, and append
them again; with the old stamps V1 would name every one of them as a copy.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, Protocol

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.bulk import LogRecord
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

__all__ = ["Author", "Bulk", "Headers", "LogRecord", "NewRecord", "Written", "read_back"]

Headers = tuple[tuple[str, bytes | None], ...]
_LENGTH: Final = Struct(">q")


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
    """Reads and appends many records; each call blocks."""

    def read(self, ranges: Sequence[ReadRange]) -> Iterator[LogRecord]:
        """Read committed records at offsets [start, end), in the order of each partition."""

    def append(self, records: Iterable[NewRecord], acknowledged: Callable[[int, int], None]) -> None:
        """Append records in this order per partition, by one idempotent producer and outside any transaction.

        Args:
            acknowledged: is given the number of a record (from 0) and its offset.
        """


class Written(NamedTuple):
    """Hold what was appended to a partition: how many records, and a checksum over all of them in order."""

    records: int = 0
    checksum: int = 0

    def then(self, key: bytes | None, value: bytes | None, headers: Headers, stamp: bytes) -> Written:
        """Take in one more record."""
        found = self.checksum
        for item in (key, value, *(part for name, of in headers for part in (name.encode(), of)), stamp):
            found = zlib.crc32(_LENGTH.pack(-1 if item is None else len(item)), found)
            found = zlib.crc32(item or b"", found)
        return Written(self.records + 1, found)


class Author:
    """The process of a restore: it stamps what it appends, and remembers a checksum of it.

    Args:
        process: its id, the ledger offset of its `Hello`.
        epoch: the highest one below that.
        ledger_id: see `wire.headers.ledger_id`.
    """

    def __init__(self, process: int, epoch: int, ledger_id: int) -> None:
        self.process = process
        self.epoch = epoch
        self.ledger_id = ledger_id
        self.written: defaultdict[TopicPartition, Written] = defaultdict(Written)

    def stamped(self, record: NewRecord) -> NewRecord:
        """Stamp a record; a header of ours that it has is replaced."""
        tp, own = record.tp, tuple(wire.without_header(record.headers))
        seq = self.written[tp].records
        stamp = wire.stamp(
            self.ledger_id, wire.tp_check(record.topic, record.partition), self.epoch, self.process, seq
        )
        self.written[tp] = self.written[tp].then(record.key, record.value, own, stamp)
        return record._replace(headers=(*own, (wire.HEADER, stamp)))


def read_back(bulk: Bulk, author: Author, ranges: Sequence[ReadRange]) -> None:
    """Compare what lies in the log with what was appended, byte by byte, by checksums.

    Args:
        ranges: from the base of each partition to its end.

    Raises:
        RestoreFailedError: they differ; the attempt is void.
    """
    found: defaultdict[TopicPartition, Written] = defaultdict(Written)
    for record in bulk.read([item for item in ranges if item.end > item.start]):
        header = wire.find(record.headers)
        check = wire.tp_check(record.topic, record.partition)
        stamp = None if header is None else wire.read(header, author.ledger_id, check)
        if header is not None and stamp is not None and stamp.process == author.process:
            own = tuple(wire.without_header(record.headers))
            found[record.tp] = found[record.tp].then(record.key, record.value, own, header)
    for tp, written in sorted(author.written.items()):
        if found[tp] != written:
            raise RestoreFailedError(
                f"{tp} does not hold what was appended: {found[tp].records:,} of {written.records:,} records"
                f" are there, checksum {found[tp].checksum:08x} instead of {written.checksum:08x}",
                hint="the attempt is void and nothing of it counts; run the same command again",
            )
