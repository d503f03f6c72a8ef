"""Ledger records as bytes: Avro single-object encoding.

`C3 01`, the fingerprint of the writer's schema (8 bytes), the record. The schemas follow from `protocol.records`
(`schemas`); `schemas/ledger/*.avsc` are they, for other readers. `schemas/ledger/old/*.avsc` are those of earlier
releases: their records are read with them and resolved to today's, and fields added since take their defaults.

The last fields of a `Report` are bytes with a schema of their own, which are read when somebody asks for one of them:
of a snapshot of N processes each process reads N of these records, and needs no end in them.

Avro takes some 100 ms to import and a service must start fast, so nothing is loaded before `load()`: call it before
the first event, or the first record pays for it.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from typing import Any, Final, NamedTuple

from snapkafka.protocol._dataclass import InParts
from snapkafka.protocol.records import LedgerRecord

from .schemas import REST, Convert, from_plain, head_and_rest, schema_of, schema_of_rest, to_plain

if typing.TYPE_CHECKING:
    from importlib.abc import Traversable

#: Marks a single-object encoding of Avro, version 1.
MAGIC: Final = b"\xc3\x01"
PREFIX_BYTES: Final = 10


class UndecodableError(Exception):
    """Bytes that are not a ledger record of a known schema: to be counted and skipped. This is not an error of a user,
    so it is not one of `snapkafka.errors`. Damaged bytes raise no other error."""


def encode(record: LedgerRecord) -> bytes:
    """Return the bytes of a record, by today's schema."""
    form = _forms()[type(record).__name__]
    plain = form.plain(record)
    if form.rest is not None:
        # What is damaged is so for whoever reads the copy, too (a checkpoint).
        damaged = typing.cast(InParts, record).damaged
        plain[REST] = b"" if damaged else _written(form.rest, form.rest.plain(record))
    return _written(form, plain)


def decode(data: bytes | None) -> LedgerRecord:
    """Return the record that these bytes encode.

    Raises:
        UndecodableError: the bytes encode no record, or have a schema that this release does not know. A fault of ours
            is raised as it is: the library has read the bytes, and the error is none to which columns lead that do not
            fit together.
    """
    form, plain = _read(data)
    if form.kind is None:
        raise UndecodableError("the last fields of a record, and no record")
    rest = plain.pop(REST) if form.rest is not None else b""
    values = _values(form, plain)
    if form.rest is None:
        return typing.cast(LedgerRecord, form.kind(**values))
    record = typing.cast(InParts, object.__new__(form.kind))
    for name, value in values.items():
        object.__setattr__(record, name, value)
    record.defer(_reader_of_rest(form.rest, rest))
    return typing.cast(LedgerRecord, record)


def _reader_of_rest(form: _Form, data: bytes) -> Convert:
    def read(record: InParts) -> bool:
        try:
            found, plain = _read(data)
            if found.name != form.name:
                return False
            values = _values(form, plain)
        except UndecodableError:
            return False
        for name, value in values.items():
            object.__setattr__(record, name, value)
        return True

    return read


def load() -> None:
    """Import Avro and parse the schemas now (some 100 ms), not when the first record comes."""
    _writers()


# -- forms ------------------------------------------------------------------------------------------------------------


class _Form(NamedTuple):
    """The schema by which today's release writes a type of record, or the last fields of one (`kind` is None then)."""

    name: str
    kind: type | None
    prefix: bytes
    schema: Any
    plain: Convert
    values: Convert
    rest: _Form | None = None


class _Writer(NamedTuple):
    """A schema by which a record may have been written, and the record that it is."""

    schema: Any
    form: _Form


def _written(form: _Form, plain: dict[str, Any]) -> bytes:
    from fastavro import schemaless_writer

    buffer = BytesIO()
    buffer.write(form.prefix)
    schemaless_writer(buffer, form.schema, plain)
    return buffer.getvalue()


def _read(data: bytes | None) -> tuple[_Form, Any]:
    """Read what these bytes encode: by the schema of their writer, in the form of today's."""
    if data is None or data[:2] != MAGIC:
        raise UndecodableError("no ledger record: it does not begin as one")
    writer = _writers().get(data[2:PREFIX_BYTES])
    if writer is None:
        raise UndecodableError(f"schema {data[2:PREFIX_BYTES].hex()} is unknown to this release")
    from fastavro import schemaless_reader

    buffer = BytesIO(data)
    buffer.seek(PREFIX_BYTES)
    ours = writer.form.schema
    try:
        plain = schemaless_reader(buffer, writer.schema, None if writer.schema is ours else ours)
    except Exception as error:
        raise UndecodableError(f"a damaged {writer.form.name}: {error!r}"[:500]) from error
    if buffer.tell() != len(data):
        raise UndecodableError(f"a {writer.form.name} of {len(data)} bytes that should have {buffer.tell()}")
    return writer.form, plain


def _values(form: _Form, plain: Any) -> dict[str, Any]:
    try:
        return typing.cast(dict[str, Any], form.values(plain))
    except (ValueError, OverflowError) as error:
        raise UndecodableError(f"a damaged {form.name}: {error!r}"[:500]) from error


def _form(kind: type) -> _Form:
    head, rest = head_and_rest(kind)
    last = None
    if rest:
        plain, values = to_plain(kind, rest, encode), from_plain(kind, rest, decode)
        last = _Form(f"{kind.__name__}Ends", None, *_parsed(schema_of_rest(kind)), plain, values)
    plain, values = to_plain(kind, head, encode), from_plain(kind, head, decode)
    return _Form(kind.__name__, kind, *_parsed(schema_of(kind)), plain, values, last)


def _parsed(schema: Any) -> tuple[bytes, Any]:
    from fastavro import parse_schema

    parsed = parse_schema(schema, named_schemas={})
    return MAGIC + _fingerprint(schema), parsed


def _fingerprint(schema: Any) -> bytes:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def _forms() -> dict[str, _Form]:
    return {kind.__name__: _form(kind) for kind in typing.get_args(LedgerRecord)}


@cache
def _writers() -> dict[bytes, _Writer]:
    forms = {form.name: form for one in _forms().values() for form in (one, one.rest) if form is not None}
    known = {form.prefix[2:]: _Writer(form.schema, form) for form in forms.values()}
    for file in old_schemas():
        schema = json.loads(file.read_text(encoding="utf-8"))
        if schema["name"] in forms:
            prefix, parsed = _parsed(schema)
            known.setdefault(prefix[2:], _Writer(parsed, forms[schema["name"]]))
    return known


# -- files ------------------------------------------------------------------------------------------------------------


def _schemas() -> Traversable:
    """Return the folder of the schemas: in the package if installed, beside it in a checkout."""
    from importlib.resources import files

    package = files("snapkafka")
    inside = package / "schemas" / "ledger"
    return inside if inside.is_dir() else package / ".." / "schemas" / "ledger"


def old_schemas() -> Iterator[Traversable]:
    """Yield the schemas of earlier releases."""
    folder = _schemas() / "old"
    if folder.is_dir():
        yield from sorted((f for f in folder.iterdir() if f.name.endswith(".avsc")), key=lambda f: f.name)


def published() -> dict[str, str]:
    """Return today's schemas as files have them, by the names of these."""
    kinds = typing.get_args(LedgerRecord)
    found = {kind.__name__: schema_of(kind) for kind in kinds}
    found |= {f"{kind.__name__}Ends": schema_of_rest(kind) for kind in kinds if head_and_rest(kind)[1]}
    return {f"{name}.avsc": json.dumps(schema, indent=2) + "\n" for name, schema in found.items()}
