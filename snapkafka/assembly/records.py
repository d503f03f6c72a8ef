"""Records of exact offset ranges, with the content of our header, and the pieces in which they are examined."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from snapkafka.checks import LogRecord, mark_of
from snapkafka.checks.log import EXTERNAL
from snapkafka.checks.stretch import NO_CAUSE, Row
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

#: The client id of all readers of the log, for quotas; docs/guide/assembly.md describes them.
CLIENT_ID: Final = "snapkafka-assembly"
#: Records, and bytes of them, that are held until they are examined.
PIECE_RECORDS: Final = 100_000
PIECE_BYTES: Final = 32 << 20
#: A piece ends where more offsets are missing: another task may have them.
JUMP_MAX: Final = 10_000


class Record(NamedTuple):
    """A record. `log`: its place and stamp, without its cause; `cause`: (topic check, partition, offset) or None."""

    log: LogRecord
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Iterable[tuple[str, bytes | None]]
    cause: tuple[int, int, int] | None = None

    @property
    def offset(self) -> int:
        return self.log[2]

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def held(self) -> int:
        """The bytes that it holds: of headers, too, unless they are made when they are asked for."""
        headers = self.headers if isinstance(self.headers, list) else ()
        return self.size + sum(len(name) + len(value or b"") for name, value in headers)

    @property
    def is_external(self) -> bool:
        """Whether none of ours wrote it."""
        return self.log.process == EXTERNAL

    @property
    def row(self) -> Row:
        """The record as `checks.stretch_of` takes it."""
        if self.cause is None:
            return (*self.log[2:7], NO_CAUSE, -1)
        check, partition, offset = self.cause
        return (*self.log[2:7], mark_of(check, partition), offset)


def record_of(
    ledger_id: int,
    place: tuple[str, int, int],
    time: tuple[int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    header: bytes | None,
) -> Record:
    """Return a record; without our header, or with one of another ledger or partition, it is external.

    Args:
        place, time: topic, partition and offset; milliseconds, and Kafka's number of their type.
        header: ours among the headers, the last if there are several.
    """
    topic, partition, _ = place
    found = None if header is None else wire.read(header, ledger_id, wire.tp_check(topic, partition))
    if found is None:
        return Record(LogRecord(*place), *time, key, value, headers)
    log = LogRecord(*place, found.process, found.epoch, found.seq, found.marker)
    return Record(log, *time, key, value, headers, found.cause)


def pieces(records: Iterable[Record]) -> Iterator[tuple[TopicPartition, list[Record]]]:
    """Divide records of several partitions, each in its order, into pieces of one partition.

    Nothing here makes circles of objects, and looking for some takes longer than the work: meanwhile nobody does.
    """
    looks = gc.isenabled()
    gc.disable()
    try:
        yield from _pieces(records)
    finally:
        if looks:
            gc.enable()


def _pieces(records: Iterable[Record]) -> Iterator[tuple[TopicPartition, list[Record]]]:
    held: dict[TopicPartition, list[Record]] = {}
    number = size = 0
    for record in records:
        tp = record.log.tp
        own = held.setdefault(tp, [])
        if own and not 0 < record.offset - own[-1].offset <= JUMP_MAX:
            number, size = number - len(own), size - sum(it.held for it in own)
            yield tp, own
            held[tp] = own = []
        own.append(record)
        number, size = number + 1, size + record.held
        if number >= PIECE_RECORDS or size >= PIECE_BYTES:
            tp = max(held, key=lambda of: len(held[of]))
            own = held.pop(tp)
            number, size = number - len(own), size - sum(it.held for it in own)
            yield tp, own
    yield from held.items()
