"""Records of exact offset ranges, with the content of our header, and the pieces in which they are examined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from snapkafka.checks import LogRecord
from snapkafka.checks.log import EXTERNAL
from snapkafka.checks.stretch import NO_CAUSE, Block, Row
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .arrow_schema import arrow_schema
from .stamps import Stamps, read_all

#: The client id of all readers of the log, for quotas; docs/guide/assembly.md describes them.
CLIENT_ID: Final = "snapkafka-assembly"
#: Records, and bytes of them, that are held until they are examined.
PIECE_RECORDS: Final = 100_000
PIECE_BYTES: Final = 32 << 20
#: A piece ends where more offsets are missing: another task may have them.
JUMP_MAX: Final = 10_000
#: The records that an engine reads; `header`: the last of ours.
ROWS: Final = arrow_schema(
    "topic string, partition int, offset bigint, at_ms bigint, timestamp_type int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, header binary"
)


class Record(NamedTuple):
    """A record. `log`: its place and stamp, without its cause; `cause`: (topic check, partition, offset) or None."""

    log: LogRecord
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    cause: tuple[int, int, int] | None = None

    @property
    def offset(self) -> int:
        return self.log[2]

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def is_external(self) -> bool:
        """Whether none of ours wrote it."""
        return self.log.process == EXTERNAL


@dataclass(frozen=True)
class Piece:
    """Records of one partition, whose offsets rise: rows of Arrow (`ROWS`), and what their headers say."""

    tp: TopicPartition
    rows: pa.RecordBatch
    offsets: Any
    stamps: Stamps

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, start: int, end: int) -> Piece:
        """Return the records from one offset to another."""
        first, last = np.searchsorted(self.offsets, (start, end)).tolist()
        part = slice(first, max(first, last))
        stamps = Stamps(*(column[part] for column in self.stamps))
        return Piece(self.tp, self.rows[part], self.offsets[part], stamps)

    def records(self, which: Any = True) -> Iterator[Record]:
        """Yield the records, or those where a column of truth values is true."""
        at = np.flatnonzero(np.broadcast_to(which, len(self)))
        for row, facts in zip(self.rows.take(pa.array(at)).to_pylist(), self._facts(at), strict=True):
            offset, process, epoch, seq, marker, mark, cause_at = facts
            log = LogRecord(*self.tp, offset, process, epoch, seq, marker)
            cause = None if mark == NO_CAUSE else (mark >> 16, mark & 0xFFFF, cause_at)
            headers = [(it["key"], it["value"]) for it in row["headers"] or ()]
            yield Record(log, row["at_ms"], row["timestamp_type"], row["key"], row["value"], headers, cause)

    def blocks(self, epoch: int, bounds: Sequence[int]) -> Iterator[Block]:
        """Yield the records as `checks.stretch_of` takes them."""
        process, _, seq, _, mark, cause = self.stamps
        goes_on = (seq[1:] == seq[:-1] + 1) | (process[1:] == EXTERNAL)
        starts = self.classes(epoch, bounds, ~goes_on | (mark[1:] != mark[:-1]))
        starts = np.union1d(starts, starts + 1)  # the record that begins a run is looked at alone
        starts = starts[starts < len(self)]
        ends = np.append(starts[1:], len(self))
        lowest, highest = np.minimum.reduceat(cause, starts), np.maximum.reduceat(cause, starts)
        rows = (partial(self._facts, slice(*it)) for it in zip(starts, ends, strict=True))
        causes, numbers = (lowest.tolist(), highest.tolist()), (ends - starts).tolist()
        yield from zip(self._facts(starts), self._facts(ends - 1), *causes, numbers, rows, strict=True)

    def classes(self, epoch: int, bounds: Sequence[int], breaks: Any = False) -> Any:
        """Return where records of another sender or colour begin, or markers, or offsets past one of the bounds; and
        where there are further breaks, before each record but the first."""
        process, its_epoch, _, marker, *_ = self.stamps
        region = np.searchsorted(bounds, self.offsets, side="right")
        for column in (process, its_epoch < epoch, marker, region):
            breaks = breaks | (column[1:] != column[:-1])
        return np.append(0, np.flatnonzero(breaks) + 1)

    def _facts(self, at: Any) -> Iterator[Row]:
        return zip(*(column[at].tolist() for column in (self.offsets, *self.stamps)), strict=True)


def pieces(batches: Iterable[pa.RecordBatch], ledger_id: int) -> Iterator[Piece]:
    """Divide records of several partitions, each in its order, into pieces of one partition."""
    held: dict[TopicPartition, list[pa.RecordBatch]] = defaultdict(list)
    number = size = 0

    def taken(tp: TopicPartition) -> Piece:
        nonlocal number, size
        own = held.pop(tp)
        number, size = number - sum(map(len, own)), size - sum(it.nbytes for it in own)
        (rows,) = pa.Table.from_batches(own).combine_chunks().to_batches()
        stamps = read_all(ledger_id, wire.tp_check(*tp), rows.column("header"))
        return Piece(tp, rows, rows.column("offset").to_numpy(), stamps)

    for batch in batches:
        for rows in _runs(batch):
            tp = TopicPartition(*(rows.column(name)[0].as_py() for name in ("topic", "partition")))
            if tp in held and not 0 < _offset(rows, 0) - _offset(held[tp][-1], -1) <= JUMP_MAX:
                yield taken(tp)
            held[tp].append(rows)
            number, size = number + len(rows), size + rows.nbytes
            if number >= PIECE_RECORDS or size >= PIECE_BYTES:
                yield taken(max(held, key=lambda of: sum(map(len, held[of]))))
    for tp in list(held):
        yield taken(tp)


def _offset(rows: pa.RecordBatch, nth: int) -> int:
    return int(rows.column("offset")[nth].as_py())


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the records that follow each other in one partition."""
    topic = batch.column("topic").dictionary_encode().indices.to_numpy()
    partition, offset = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
    step = np.diff(offset)
    ends = (np.diff(topic) != 0) | (np.diff(partition) != 0) | (step <= 0) | (step > JUMP_MAX)
    for start, end in pairwise([0, *(np.flatnonzero(ends) + 1).tolist(), len(batch)]):
        if start < end:
            yield batch[start:end]
