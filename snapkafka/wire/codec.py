"""Ledger records as bytes: Avro single-object encoding.

`C3 01`, the fingerprint of the writer's schema (8 bytes), the record. The schemas are `schemas/ledger/*.avsc`, one for
each type of `protocol.records`, and the single source of truth. `schemas/ledger/old/*.avsc` are those of earlier
releases: their records are read with them and resolved to today's, and fields added since take their defaults.

Records of today's schema are read and written field by field, by Avro's own primitives: a schema has its dataclass's
fields in their order (tested). Avro's generic reader compares two schemas at every value and takes four times as long,
which slows down every snapshot (docs/evidence/performance.md); it is used for older schemas only.

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

from snapkafka.protocol import records
from snapkafka.protocol.records import LedgerRecord

from .fingerprint import fingerprint

if typing.TYPE_CHECKING:
    from importlib.abc import Traversable

__all__ = ["MAGIC", "UndecodableError", "decode", "encode", "load", "schema_files"]

#: Marks a single-object encoding of Avro, version 1.
MAGIC: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10

#: Reads a value by an Avro decoder; writes one by an encoder.
Read = Callable[[Any], Any]
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
        UndecodableError: the bytes encode no record, or have a schema that this release does not know. Bytes that
            Avro's own reader can read, and ours cannot, are a fault of ours, which is raised as it is.
    """
    from avro.io import BinaryDecoder

    if data is None or data[:2] != MAGIC:
        raise UndecodableError("no ledger record: it does not begin as one")
    writer = _writers().get(data[2:PREFIX_BYTES])
    if writer is None:
        raise UndecodableError(f"schema {data[2:PREFIX_BYTES].hex()} is unknown to this release")
    buffer = BytesIO(data)
    buffer.seek(PREFIX_BYTES)
    form = _forms()[writer.name]
    try:
        decoder = BinaryDecoder(buffer)
        if data[:PREFIX_BYTES] == form.prefix:
            record = form.read(decoder)
        else:
            record = _resolved(writer, decoder)
    except UndecodableError:
        raise
    except Exception as error:
        if _is_whole(writer, data):
            raise
        raise UndecodableError(f"a damaged {writer.name}: {error!r}"[:500]) from error
    if buffer.tell() != len(data):
        raise UndecodableError(f"a {writer.name} with {len(data) - buffer.tell()} bytes too many")
    return typing.cast(LedgerRecord, record)


def _resolved(writer: _Writer, decoder: Any) -> Any:
    """Read a record by Avro's generic reader, which resolves the writer's schema to today's."""
    from avro.io import DatumReader

    form = _forms()[writer.name]
    return form.typed(DatumReader(writer.schema, form.schema).read(decoder))


def _is_whole(writer: _Writer, data: bytes) -> bool:
    """Return whether Avro's generic reader can read the bytes."""
    from avro.io import BinaryDecoder

    buffer = BytesIO(data)
    buffer.seek(PREFIX_BYTES)
    try:
        _resolved(writer, BinaryDecoder(buffer))
    except Exception:
        return False
    return buffer.tell() == len(data)


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

    forms = {}
    for cls in typing.get_args(LedgerRecord):
        text = (_schemas() / f"{cls.__name__}.avsc").read_text(encoding="utf-8")
        prefix = MAGIC + fingerprint(json.loads(text))
        forms[cls.__name__] = _Form(
            prefix, avro.schema.parse(text), _reader_of(cls), _writer_of(cls), _typed_of(cls)
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


def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(records))


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "__annotations__")


@cache
def _reader_of(kind: Any) -> Read:
    """Make a function that reads a value of this type, as its schema has it."""
    from avro.io import BinaryDecoder

    if kind == LedgerRecord:  # a record within a record (Checkpoint)
        return lambda decoder: decode(decoder.read_bytes())
    if _is_record(kind):
        fields = [(name, _reader_of(hint)) for name, hint in _hints(kind).items()]
        return lambda decoder: kind(**{name: read(decoder) for name, read in fields})
    if typing.get_origin(kind) is tuple:
        item = _reader_of(typing.get_args(kind)[0])

        def read_array(decoder: Any) -> tuple[Any, ...]:
            found: list[Any] = []
            while count := decoder.read_long():
                if count < 0:  # then the size of the block in bytes comes next
                    count = -count
                    decoder.read_long()
                found += [item(decoder) for _ in range(count)]
            return tuple(found)

        return read_array
    return getattr(BinaryDecoder, f"read_{_primitive(kind)}")  # type: ignore[no-any-return]


@cache
def _writer_of(kind: Any) -> Write:
    """Make a function that writes a value of this type, as its schema has it."""
    from avro.io import BinaryEncoder

    if kind == LedgerRecord:
        return lambda encoder, record: encoder.write_bytes(encode(record))
    if _is_record(kind):
        fields = [(name, _writer_of(hint)) for name, hint in _hints(kind).items()]

        def write_record(encoder: Any, record: Any) -> None:
            for name, write in fields:
                write(encoder, getattr(record, name))

        return write_record
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


def _primitive(kind: Any) -> str:
    """Return the name of the type in Avro's decoders and encoders."""
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
    if _is_record(kind):
        fields = [(name, _typed_of(hint)) for name, hint in _hints(kind).items()]
        return lambda value: kind(**{name: convert(value[name]) for name, convert in fields})
    if typing.get_origin(kind) is tuple:
        item = _typed_of(typing.get_args(kind)[0])
        return lambda value: tuple(item(element) for element in value)
    return lambda value: value
