"""Ledger records as bytes: Avro single-object encoding.

`C3 01`, the fingerprint of the writer's schema (8 bytes), the record. The schemas are `schemas/ledger/*.avsc`, one for
each type of `protocol.records`, and the single source of truth. `schemas/ledger/old/*.avsc` are those of earlier
releases: their records are read with them and resolved to today's, and fields added since take their defaults.

The ends and ranges of many partitions are columns (`columns`). The last fields of a `Closed` are read when somebody
asks for one of them: of a snapshot of N processes each process reads N of these records, and needs no end in them.

Records of today's schema are read by functions compiled for their types (`compiled`) and written field by field, by
Avro's own primitives: a schema has its dataclass's fields in their order (tested). Avro's generic reader compares two
schemas at every value and takes ten times as long, which slows down every start (docs/evidence/performance.md); it is
used for older schemas only.

Works with `avro` (1.12) and with `avro-python3` 1.10, which share the import name. Avro takes some 100 ms to
import and a service must start fast, so nothing is loaded before `load()`: call it before the first event, or the
first record pays for it.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from typing import Any, Final, NamedTuple

from snapkafka.protocol._dataclass import InParts
from snapkafka.protocol.records import LedgerRecord

from .columns import FORMS, packed, unpacked
from .compiled import DAMAGE, Read, Readers, columns_of, hints_of, is_record
from .fingerprint import fingerprint

if typing.TYPE_CHECKING:
    from importlib.abc import Traversable

#: Marks a single-object encoding of Avro, version 1.
MAGIC: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10

#: Writes a value by an Avro encoder.
Write = Callable[[Any, Any], None]
#: Makes one value of a record (a tuple of dataclasses, ...) from what Avro's generic reader gives.
Convert = Callable[[Any], Any]


class UndecodableError(Exception):
    """Bytes that are not a ledger record of a known schema: to be counted and skipped. This is not an error of a user,
    so it is not one of `snapkafka.errors`. Damaged bytes raise no other error."""


def encode(record: LedgerRecord) -> bytes:
    """Return the bytes of a record, by today's schema."""
    from avro.io import BinaryEncoder

    form = _forms()[type(record).__name__]
    buffer = BytesIO()
    buffer.write(form.prefix)
    form.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def decode(data: bytes | None) -> LedgerRecord:
    """Return the record that these bytes encode.

    Raises:
        UndecodableError: the bytes encode no record, or have a schema that this release does not know. A fault of ours
            is raised as it is: Avro's own reader can read the bytes, and either they make a record or the error is none
            to which damaged columns lead.
    """
    if data is None or data[:2] != MAGIC:
        raise UndecodableError("no ledger record: it does not begin as one")
    writer = _writers().get(data[2:PREFIX_BYTES])
    if writer is None:
        raise UndecodableError(f"schema {data[2:PREFIX_BYTES].hex()} is unknown to this release")
    form = _forms()[writer.name]
    try:
        if data.startswith(form.prefix):
            record, end = form.read(data, PREFIX_BYTES)
        else:
            plain, end = _read_by_avro(writer, data)
            record = form.typed(plain)
    except UndecodableError:
        raise
    except Exception as error:
        if _is_ours(error, writer, data):
            raise
        raise UndecodableError(f"a damaged {writer.name}: {error!r}"[:500]) from error
    if end != len(data):
        raise UndecodableError(f"a {writer.name} of {len(data)} bytes that should have {end}")
    return typing.cast(LedgerRecord, record)


def _read_by_avro(writer: _Writer, data: bytes) -> tuple[Any, int]:
    """Read a record by Avro's generic reader, which resolves the writer's schema to today's; return where it ends."""
    from avro.io import BinaryDecoder, DatumReader

    buffer = BytesIO(data)
    buffer.seek(PREFIX_BYTES)
    schema = _forms()[writer.name].schema
    return DatumReader(writer.schema, schema).read(BinaryDecoder(buffer)), buffer.tell()


def _is_ours(error: Exception, writer: _Writer, data: bytes) -> bool:
    """Return whether it is not the bytes that led to this error."""
    try:
        plain, end = _read_by_avro(writer, data)
        if end == len(data) and isinstance(error, DAMAGE):
            _forms()[writer.name].typed(plain)
        return end == len(data)
    except Exception:
        return False


def load() -> None:
    """Import Avro and parse the schemas now (some 100 ms), not when the first record comes."""
    _writers()


def schema_files() -> Iterator[Traversable]:
    """Yield today's schemas, then those of earlier releases."""
    for folder in (_schemas(), _schemas() / "old"):
        if folder.is_dir():
            yield from sorted((f for f in folder.iterdir() if f.name.endswith(".avsc")), key=lambda f: f.name)


# -- schemas -------------------------------------------------------------------------------------------------


class _Writer(NamedTuple):
    """A schema by which a record may have been written."""

    name: str
    schema: Any


class _Form(NamedTuple):
    """The functions by which today's release writes and reads one type of record."""

    prefix: bytes
    schema: Any
    read: Read
    write: Write
    typed: Convert


def _schemas() -> Traversable:
    """Return the folder of the schemas: in the package if installed, beside it in a checkout."""
    from importlib.resources import files

    package = files("snapkafka")
    inside = package / "schemas" / "ledger"
    return inside if inside.is_dir() else package / ".." / "schemas" / "ledger"


@cache
def _forms() -> dict[str, _Form]:
    import avro.schema

    forms, readers = {}, Readers(decode)
    for cls in typing.get_args(LedgerRecord):
        text = (_schemas() / f"{cls.__name__}.avsc").read_text(encoding="utf-8")
        prefix = MAGIC + fingerprint(json.loads(text))
        forms[cls.__name__] = _Form(
            prefix, avro.schema.parse(text), readers.reader(cls), _writer_of(cls), _typed_of(cls)
        )
    return forms


@cache
def _writers() -> dict[bytes, _Writer]:
    import avro.schema

    known = {form.prefix[2:]: _Writer(name, form.schema) for name, form in _forms().items()}
    for file in schema_files():
        text = file.read_text(encoding="utf-8")
        parsed = json.loads(text)
        if parsed["name"] in _forms():
            known.setdefault(fingerprint(parsed), _Writer(parsed["name"], avro.schema.parse(text)))
    return known


# -- dataclasses <-> bytes ------------------------------------------------------------------------------------


@cache
def _writer_of(kind: Any) -> Write:
    """Make a function that writes a value of this type, as its schema has it."""
    from avro.io import BinaryEncoder

    if kind == LedgerRecord:
        return lambda encoder, record: encoder.write_bytes(encode(record))
    if is_record(kind):
        fields = [(name, _writer_of(hint)) for name, hint in hints_of(kind).items()]
        head = len(fields) - len(kind.rest()) if issubclass(kind, InParts) else 0

        def write_record(encoder: Any, record: Any) -> None:
            unreadable = (
                head and record.damaged
            )  # so that it is for whoever reads the copy, too (a checkpoint)
            for name, write in fields[:head] if unreadable else fields:
                write(encoder, getattr(record, name))

        return write_record
    if (listed := columns_of(kind)) is not None:
        write_columns = _writer_of(FORMS[listed].columns)
        return lambda encoder, items: write_columns(encoder, packed(listed, items))
    if kind == tuple[int, ...]:
        return _write_numbers
    if typing.get_origin(kind) is tuple:
        item = _writer_of(typing.get_args(kind)[0])

        def write_array(encoder: Any, values: tuple[Any, ...]) -> None:
            if values:
                encoder.write_long(len(values))
                for value in values:
                    item(encoder, value)
            encoder.write_long(0)

        return write_array
    return getattr(BinaryEncoder, f"write_{_primitive(kind)}")  # type: ignore[no-any-return]


def _write_numbers(encoder: Any, numbers: tuple[int, ...]) -> None:
    """Write a list of numbers, without a call for each byte: a column has hundreds."""
    data = bytearray()
    for number in (len(numbers), *numbers, 0) if numbers else (0,):
        left = (number << 1) ^ (number >> 63)
        while left > 127:
            data.append(left & 127 | 128)
            left >>= 7
        data.append(left)
    encoder.write(bytes(data))


def _primitive(kind: Any) -> str:
    """Return the name of the type in Avro's encoders."""
    if kind is int:
        return "long"
    if kind is bool:
        return "boolean"
    assert kind is str or typing.get_origin(kind) is typing.Literal, f"no Avro type for {kind}"
    return "utf8"


@cache
def _typed_of(kind: Any) -> Convert:
    """Make a function that turns dicts, lists and atoms back into a value of this type."""
    if kind == LedgerRecord:
        return decode
    if is_record(kind):
        fields = [(name, _typed_of(hint)) for name, hint in hints_of(kind).items()]
        return lambda value: kind(**{name: convert(value[name]) for name, convert in fields})
    if (listed := columns_of(kind)) is not None:
        columns = _typed_of(FORMS[listed].columns)
        return lambda value: unpacked(listed, columns(value))
    if typing.get_origin(kind) is tuple:
        item = _typed_of(typing.get_args(kind)[0])
        return lambda value: tuple(item(element) for element in value)
    return lambda value: value
