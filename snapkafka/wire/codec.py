"""Ledger records as bytes: Avro single-object encoding.

`C3 01`, the fingerprint of the schema (8 bytes), the record. `schemas/ledger/*.avsc` are the schemas, for others.

The last fields of a `Report` are compressed bytes (zlib) with a schema of their own, which are read when somebody asks
for one of them: of a snapshot of N processes each process reads N of these records, and needs no end in them.
"""

from __future__ import annotations

import operator
import typing
import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache, partial
from io import BytesIO
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from snapkafka.protocol._dataclass import InParts
from snapkafka.protocol.records import Kept, LedgerRecord, TopicPartition

from .schemas import BESIDE, IN_COLUMNS, REST, hints_of, item_of, parts_of

#: Marks a single-object encoding of Avro, version 1.
MAGIC: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10
#: The last fields of a record that is damaged must not fill the memory.
REST_BYTES_MAX: Final = 8 * 1024 * 1024

#: Makes a value of Avro of one of ours, or back.
Convert = Callable[[Any], Any]


class UndecodableError(Exception):
    """Bytes that are no ledger record of a known schema: counted, and skipped. Damaged bytes raise no other error."""


def encode(record: LedgerRecord) -> bytes:
    """Return the bytes of a record."""
    form = _forms()[type(record).__name__]
    plain = form.plain(record)
    if form.rest is not None:
        # What is damaged is so for whoever reads the copy, too (a checkpoint).
        damaged = typing.cast(InParts, record).damaged
        rest = b"" if damaged else _written(form.rest, form.rest.plain(record))
        plain[REST] = zlib.compress(rest)
    return _written(form, plain)


def decode(data: bytes | None) -> LedgerRecord:
    """Return the record that these bytes encode.

    Raises:
        UndecodableError: the bytes encode no record, or have a schema that this release does not know. A fault of ours
            is raised as it is: the library has read the bytes.
    """
    form = _by_prefix().get((data or b"")[:PREFIX_BYTES])
    if data is None or form is None:
        raise UndecodableError("no ledger record of a schema that this release knows")
    values = _read(form, data)
    if form.rest is None:
        return typing.cast(LedgerRecord, form.kind(**values))
    rest = values.pop(REST)
    record = typing.cast(InParts, object.__new__(form.kind))
    for name, value in values.items():
        object.__setattr__(record, name, value)
    record.defer(partial(_read_rest, form.rest, rest))
    return typing.cast(LedgerRecord, record)


def _read_rest(form: _Form, data: bytes) -> dict[str, Any] | None:
    try:
        whole = zlib.decompressobj().decompress(data, REST_BYTES_MAX)
        return _read(form, whole) if whole.startswith(form.prefix) else None
    except (UndecodableError, zlib.error):
        return None


def load() -> None:
    """Import Avro and parse the schemas now (some 100 ms): before the first event, or the first record pays for it."""
    _by_prefix()


class _Form(NamedTuple):
    """The schema of a type of record, or of the last fields of one."""

    name: str
    kind: type
    prefix: bytes
    schema: Any
    to_avro: Sequence[tuple[str, Convert]]
    from_avro: Sequence[tuple[str, Convert]]
    rest: _Form | None = None

    def plain(self, record: Any) -> dict[str, Any]:
        """Return these fields of a record as a dict for Avro."""
        return {name: convert(getattr(record, name)) for name, convert in self.to_avro}


def _written(form: _Form, plain: dict[str, Any]) -> bytes:
    from fastavro import schemaless_writer

    buffer = BytesIO()
    buffer.write(form.prefix)
    schemaless_writer(buffer, form.schema, plain)
    return buffer.getvalue()


def _read(form: _Form, data: bytes) -> dict[str, Any]:
    """Return the fields that these bytes encode."""
    from fastavro import schemaless_reader

    buffer = BytesIO(data)
    buffer.seek(PREFIX_BYTES)
    try:
        plain = schemaless_reader(buffer, form.schema, None)
    except Exception as error:
        raise UndecodableError(f"a damaged {form.name}: {error!r}"[:500]) from error
    if buffer.tell() != len(data):
        raise UndecodableError(f"a {form.name} of {len(data)} bytes that should have {buffer.tell()}")
    return _values(form, plain)


def _values(form: _Form, plain: Any) -> dict[str, Any]:
    try:
        for name, convert in form.from_avro:
            plain[name] = convert(plain[name])
    except ValueError as error:
        raise UndecodableError(f"a damaged {form.name}: {error!r}"[:500]) from error
    return typing.cast(dict[str, Any], plain)


@cache
def _forms() -> dict[str, _Form]:
    return {kind.__name__: _form(kind) for kind in typing.get_args(LedgerRecord)}


@cache
def _by_prefix() -> dict[bytes, _Form]:
    return {form.prefix: form for form in _forms().values()}


def _form(kind: type) -> _Form:
    head, *last = parts_of(kind)
    return _form_of(kind, *head, _form_of(kind, *last[0]) if last else None)


def _form_of(kind: type, names: Sequence[str], schema: Any, rest: _Form | None = None) -> _Form:
    from fastavro import parse_schema
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    hints = {name: hints_of(kind)[name] for name in names}
    to_avro = [(name, _TO_AVRO.get(item_of(hint), msgspec.to_builtins)) for name, hint in hints.items()]
    from_avro = [
        (name, _FROM_AVRO.get(item_of(hint)) or partial(msgspec.convert, type=hint))
        for name, hint in hints.items()
        if hint not in (int, str, bool)
    ]
    parsed = parse_schema(schema, named_schemas={})
    return _Form(schema["name"], kind, MAGIC + mark, parsed, to_avro, from_avro, rest)


def _plain_kept(values: Sequence[Kept]) -> list[dict[str, Any]]:
    return [{"offset": it.offset, "record": encode(it.record), "at_ms": it.at_ms} for it in values]


def _kept(plain: Sequence[dict[str, Any]]) -> tuple[Kept, ...]:
    return tuple(Kept(**it | {"record": decode(it["record"])}) for it in plain)


def _packed(item: Any, values: Sequence[Any]) -> dict[str, Any]:
    columns = {name: [getattr(value, name) for value in values] for name in hints_of(item)}
    defaults = {field.name: field.default for field in fields(item)}
    found: dict[str, Any] = {}
    for name, values_of in columns.items():
        column = [] if all(value == defaults[name] for value in values_of) else values_of
        if hints_of(item)[name] is int:
            near = columns.get(BESIDE.get((item, name), ""), [0, *column])
            found[name] = _numbers([*map(operator.sub, column, near)])
        else:
            found[name] = msgspec.to_builtins(column)
    return found


def _unpacked(item: Any, plain: dict[str, Any]) -> tuple[Any, ...]:
    columns: dict[str, list[Any]] = {}
    for name, hint in sorted(hints_of(item).items(), key=lambda field: (item, field[0]) in BESIDE):
        column = _listed(**plain[name]) if hint is int else plain[name]
        if not column:
            continue  # all have the default
        if near := BESIDE.get((item, name)):
            column = [a + b for a, b in zip(column, columns.get(near, ()), strict=True)]
        elif hint is int:
            column = [*accumulate(column)]
        columns[name] = column
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return msgspec.convert(rows, type=tuple[item, ...])


def _numbers(column: Sequence[int]) -> dict[str, Any]:
    """Return numbers as `Numbers`."""
    low = min(column, default=0)
    width = (max(column, default=0) - low).bit_length()
    bits = "".join(f"{number - low:0{width}b}" for number in column) if width else ""
    packed = int(bits or "0", 2).to_bytes(-(-len(bits) // 8), "big")
    return {"count": len(column), "low": low, "width": width, "packed": packed}


def _listed(*, count: int, low: int, width: int, packed: bytes) -> list[int]:
    if width < 0 or not 0 <= count <= REST_BYTES_MAX or len(packed) != -(-count * width // 8):
        raise ValueError(f"{count} numbers of {width} bits in {len(packed)} bytes")
    bits = f"{int.from_bytes(packed, 'big'):0{count * width}b}"
    return [low + int(bits[at * width : (at + 1) * width] or "0", 2) for at in range(count)]


#: Lists of these have a form of their own.
_TO_AVRO: Final[dict[Any, Convert]] = {
    **{item: partial(_packed, item) for item in IN_COLUMNS},
    Kept: _plain_kept,
    TopicPartition: lambda values: [value._asdict() for value in values],
}
_FROM_AVRO: Final[dict[Any, Convert]] = {
    **{item: partial(_unpacked, item) for item in IN_COLUMNS},
    Kept: _kept,
    TopicPartition: lambda plain: tuple(TopicPartition(**it) for it in plain),
}
