"""The messages in which a worker describes its tables for an audit: one digest per key, in chunks, and a last message.

Both sides compute digests here. A value counts by its content: two texts of one JSON value have one digest.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import msgspec

#: The topic of a namespace to which workers send their digests; the audit creates it.
TOPIC: Final = "_snapkafka-audit."
#: Codecs that write a value as the same bytes, or the same JSON, each time.
COMPARABLE: Final = frozenset({"json", "raw"})
#: Rows of one chunk are so large together, uncompressed.
CHUNK_BYTES: Final = 256 * 1024
#: A longer value is shown by its beginning and its end.
SHOWN_BYTES: Final = 120
DIGEST_BYTES: Final = 12

_ENCODE: Final = msgspec.json.Encoder(order="sorted").encode
_DECODE: Final = msgspec.json.Decoder().decode
_PACK: Final = msgspec.msgpack.Encoder().encode


class AuditedTable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table in a worker at its cut.

    `partitions`: those whose state the worker had. `judged_below`: partition -> the offset from which on records of the
    changelog may be newer than the cut; a partition that is missing has none. `reason`: why it was not audited.
    """

    name: str
    changelog: str
    partitions: tuple[int, ...] = ()
    as_json: tuple[bool, bool] = (True, True)
    sets: bool = False
    expires: bool = False
    judged_below: dict[int, int] = {}
    reason: str = ""


class Audited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last message of a worker. `reason`: why it was not audited. `pause_us`: the time that its loop stood still at
    the cut."""

    epoch: int
    process: int
    reason: str = ""
    chunks: int = 0
    tables: tuple[AuditedTable, ...] = ()
    pause_us: int = 0


#: The place of a message, and its bytes.
_MESSAGE: Final = msgspec.msgpack.Decoder(tuple[int, int, int, bytes]).decode
_AUDITED: Final = msgspec.json.Decoder(Audited).decode
_ROWS: Final = msgspec.msgpack.Decoder(list[tuple[int, bytes, bytes, bytes]]).decode


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of the tables of a worker: (number of the table, key, digest of the value, the value as shown)."""

    epoch: int
    process: int
    number: int
    rows: list[tuple[int, bytes, bytes, bytes]]


def content(raw: bytes, as_json: bool) -> bytes:
    """Return the bytes by which a key or a value is compared."""
    if as_json:
        try:
            return _ENCODE(_DECODE(raw))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return raw
    return raw


def content_of_set(key_raw: bytes, value_raw: bytes) -> tuple[bytes, bytes]:
    """Return the key and the members of a set by which it is compared, from one operation that creates it."""
    _, key = _DECODE(key_raw)
    members = sorted(_ENCODE(member) for member in _DECODE(value_raw)[0])
    return _ENCODE(key), b"[%s]" % b",".join(members)


def digest(value: bytes) -> bytes:
    """Return the digest of a value's content."""
    return blake2b(value, digest_size=DIGEST_BYTES).digest()


def shown(value: bytes) -> bytes:
    """Return a value as findings show it."""
    if len(value) <= SHOWN_BYTES:
        return value
    half = SHOWN_BYTES // 2
    return b"%s ... %s" % (value[:half], value[-half:])


def pack(rows: Iterable[tuple[int, bytes, bytes]]) -> Iterator[bytes]:
    """Pack rows of (number of the table, key, value), both as compared, for `chunk`. An empty piece now and then lets
    a caller take turns."""
    piece: list[tuple[int, bytes, bytes, bytes]] = []
    size = 0
    for number, (table, key, value) in enumerate(rows, 1):
        row = (table, key, digest(value), shown(value))
        piece.append(row)
        size += len(key) + len(row[3]) + 24
        if size >= CHUNK_BYTES:
            yield zlib.compress(_PACK(piece), 1)
            piece, size = [], 0
        elif not number % 64:
            yield b""
    if piece:
        yield zlib.compress(_PACK(piece), 1)


def chunk(epoch: int, process: int, number: int, packed: bytes) -> bytes:
    """Return the message with a piece of packed rows."""
    return _PACK((epoch, process, number, packed))


def last(audited: Audited) -> bytes:
    """Return the last message of a worker."""
    return _PACK((audited.epoch, audited.process, -1, msgspec.json.encode(audited)))


def read(message: bytes, epoch: int) -> Chunk | Audited | None:
    """Read a message of this snapshot; None: it is of another one, or unreadable."""
    try:
        of, process, number, data = _MESSAGE(message)
        if of != epoch:
            return None
        if number < 0:
            return _AUDITED(data)
        rows = _ROWS(zlib.decompress(data))
        return Chunk(epoch, process, number, rows)
    except (msgspec.MsgspecError, zlib.error):
        return None
