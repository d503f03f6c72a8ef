"""The `_sk` header: the colour, the sender and the cause of a record, in 18 or 27 bytes.

Its fields have fixed widths and are big-endian, so that Spark splits it with expressions and compares bytes directly:

| bytes | content |
|---|---|
| 0 | version (high nibble, 1) and flags (low nibble): 1 = a marker, 2 = with a cause |
| 1-2 | ledger id: the ledger of which the epochs and process ids below are offsets |
| 3-4 | topic-partition check: a header that was copied to another partition is external |
| 5-8 | epoch |
| 9-12 | process |
| 13-17 | seq: counts per (process, topic-partition) |
| 18-19, 20-21, 22-26 | cause: topic check, partition, offset of the event that caused the record |

A marker has, in place of the cause, the epoch from which its sender turned (18-21): 22 bytes.

These functions run for every record of a host, so they are short, and constants are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

from snapkafka.protocol.records import NOBODY

#: The name of the header.
HEADER: Final = "_sk"

VERSION: Final = 1
MARKER: Final = 0b01
CAUSE: Final = 0b10

_PLAIN_KIND: Final = VERSION << 4
_MARKER_KIND: Final = VERSION << 4 | MARKER
_CAUSED_KIND: Final = VERSION << 4 | CAUSE

_PLAIN: Final = Struct(">BHHIIBI")
_CAUSED: Final = Struct(">BHHIIBIHHBI")
_MARKER: Final = Struct(">BHHIIBII")
_pack_plain: Final = _PLAIN.pack
_pack_caused: Final = _CAUSED.pack
_pack_marker: Final = _MARKER.pack
_unpack_plain: Final = _PLAIN.unpack
_unpack_caused: Final = _CAUSED.unpack
_unpack_marker: Final = _MARKER.unpack

PLAIN_BYTES: Final = _PLAIN.size
CAUSED_BYTES: Final = _CAUSED.size
MARKER_BYTES: Final = _MARKER.size
assert (PLAIN_BYTES, CAUSED_BYTES, MARKER_BYTES) == (18, 27, 22)

_LOW: Final = 0xFFFF_FFFF
#: Seqs and offsets have 40 bits: a million records a second on one partition for twelve days, or 10,000/s for 3 years.
MAX_40: Final = (1 << 40) - 1


class Stamp(NamedTuple):
    """The content of a header. Only markers have `previous`; only other records have `cause` = (topic check,
    partition, offset)."""

    epoch: int
    process: int
    seq: int
    marker: bool = False
    previous: int = 0
    cause: tuple[int, int, int] | None = None


#: Makes a `Stamp` from its six fields; calling the class costs twice as much.
_stamp_of: Final = partial(tuple.__new__, Stamp)


def ledger_id(topic_id: bytes) -> int:
    """Return the ledger's mark in headers: a ledger that was recreated under the same name has another.

    Args:
        topic_id: the 16 raw bytes of Kafka's topic id.
    """
    assert len(topic_id) == 16
    return crc32(topic_id) & 0xFFFF


@cache
def tp_check(topic: str, partition: int) -> int:
    """Return the mark of a topic-partition in the headers of its records."""
    return crc32(f"{topic}:{partition}".encode()) & 0xFFFF


@cache
def topic_check(topic: str) -> int:
    """Return the mark of a topic in the cause of a header."""
    return crc32(topic.encode()) & 0xFFFF


def topics_by_check(topics: Iterable[str]) -> dict[int, str]:
    """Return the topics by their marks, for readers of causes. Two topics that share a mark (one pair in 65,536 does)
    are left out: a cause with that mark shows nothing."""
    by_check: dict[int, list[str]] = {}
    for topic in set(topics):
        by_check.setdefault(topic_check(topic), []).append(topic)
    return {check: found[0] for check, found in by_check.items() if len(found) == 1}


def stamp(ledger: int, check: int, epoch: int, process: int, seq: int) -> bytes:
    """Return the header of a record without a cause, 18 bytes. `check` is `tp_check` of the partition to which the
    record goes."""
    assert process != NOBODY
    return _pack_plain(_PLAIN_KIND, ledger, check, epoch, process, seq >> 32, seq & _LOW)


def stamp_with_cause(
    ledger: int,
    check: int,
    epoch: int,
    process: int,
    seq: int,
    cause_topic: int,
    cause_partition: int,
    cause_offset: int,
) -> bytes:
    """Return the header of a record that an event causes, 27 bytes. `cause_topic` is `topic_check` of its topic.

    A cause that does not fit (partition above 65,535, offset above 2**40) is left out, so that no host fails.
    """
    assert process != NOBODY
    if cause_offset > MAX_40 or cause_partition > 0xFFFF:
        return _pack_plain(_PLAIN_KIND, ledger, check, epoch, process, seq >> 32, seq & _LOW)
    return _pack_caused(
        _CAUSED_KIND,
        ledger,
        check,
        epoch,
        process,
        seq >> 32,
        seq & _LOW,
        cause_topic,
        cause_partition,
        cause_offset >> 32,
        cause_offset & _LOW,
    )


def marker(ledger: int, check: int, epoch: int, process: int, seq: int, previous: int) -> bytes:
    """Return the header of a marker, 22 bytes, which is its body as well: `process` turned from `previous` to
    `epoch`."""
    assert process != NOBODY
    return _pack_marker(_MARKER_KIND, ledger, check, epoch, process, seq >> 32, seq & _LOW, previous)


_MARKER_KEYS: Final = HEADER.encode() + b":"


def marker_key(process: int) -> bytes:
    """Return the key of a marker: compacted topics accept no record without one."""
    return b"%s:%d" % (HEADER.encode(), process)


def is_marker_key(key: object) -> bool:
    """Return whether this is the key of a marker, of any process."""
    return isinstance(key, bytes) and key.startswith(_MARKER_KEYS) and key[len(_MARKER_KEYS) :].isdigit()


def is_marker(key: object, headers: Any) -> bool:
    """Return whether a record is a marker, of any ledger and process. Its key alone proves nothing: users may have
    such keys, too."""
    header = find(headers)
    return (
        isinstance(header, bytes | bytearray)
        and len(header) == MARKER_BYTES
        and header[0] == _MARKER_KIND
        and is_marker_key(key)
    )


def read(header: bytes, ledger: int, check: int) -> Stamp | None:
    """Decode a header; None if the record is external: it has no header of this version, ledger and partition.

    Args:
        header: the bytes found under `HEADER`.
        ledger: `ledger_id` of the reader's ledger.
        check: `tp_check` of the partition that the record lies in.
    """
    size = len(header)
    if size == CAUSED_BYTES:
        kind, its_ledger, its_check, epoch, process, high, low, topic, partition, c_high, c_low = (
            _unpack_caused(header)
        )
        if its_check != check or its_ledger != ledger or kind != _CAUSED_KIND:
            return None
        return _stamp_of(
            (epoch, process, high << 32 | low, False, 0, (topic, partition, c_high << 32 | c_low))
        )
    if size == PLAIN_BYTES:
        kind, its_ledger, its_check, epoch, process, high, low = _unpack_plain(header)
        if its_check != check or its_ledger != ledger or kind != _PLAIN_KIND:
            return None
        return _stamp_of((epoch, process, high << 32 | low, False, 0, None))
    if size == MARKER_BYTES:
        kind, its_ledger, its_check, epoch, process, high, low, previous = _unpack_marker(header)
        if its_check != check or its_ledger != ledger or kind != _MARKER_KIND:
            return None
        return _stamp_of((epoch, process, high << 32 | low, True, previous, None))
    return None


def find(headers: Any) -> bytes | None:
    """Return the bytes of the header, the last if there are several; None: there is none.

    Args:
        headers: pairs of name and value, or a mapping, as Kafka clients and Faust give them; or None.
    """
    found = None
    for name, value in headers if type(headers) is list else _pairs(headers):
        if name == HEADER:
            found = value
    return found


def take_out(headers: Any) -> tuple[bytes | None, Any]:
    """Find the header as `find` does; return it, and the headers without any of ours, in the type in which they came:
    agents may read it. Without a header of ours these are the same headers."""
    pairs = headers.items() if hasattr(headers, "items") else headers
    found = None
    for name, value in pairs:
        if name == HEADER:
            found = value
    if found is None:
        return None, headers
    rest = [pair for pair in pairs if pair[0] != HEADER]
    return found, rest if type(headers) is list else type(headers)(rest)


def without_header(headers: Any) -> list[tuple[str, Any]]:
    """Return the headers without any of ours, for code that reads or forwards the record."""
    return [pair for pair in _pairs(headers) if pair[0] != HEADER]


def _pairs(headers: Any) -> Iterable[tuple[str, Any]]:
    if not headers:
        return ()
    return headers.items() if hasattr(headers, "items") else headers  # type: ignore[no-any-return]
