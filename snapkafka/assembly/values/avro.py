"""Avro to JSON by fastavro. Decimals are texts with all digits, times and dates are texts by ISO 8601, bytes are in
base64; a value of a union is the value alone. What JSON or Python does not have, such as NaN or a date in the year
10000, cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal, Rounded
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
import msgspec
from fastavro import _logical_readers, _logical_readers_py
from fastavro import _read_py as in_python

from snapkafka.errors import BadInputError

from .json_text import as_json

#: Types of schemas, as registries call them.
AVRO: Final = "AVRO"
JSON: Final = "JSON"
#: The one field of the record in which every schema stands: its bytes are those of the value.
VALUE: Final = "value"
for _readers in (_logical_readers, _logical_readers_py):
    _readers.decimal_context.traps[Rounded] = True  # else it rounds what has more digits than its schema says


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema. `needs`: the texts of those to which it refers, each after those that it needs itself."""

    text: str
    kind: str = AVRO
    needs: tuple[str, ...] = ()


def reader_of(schema: Schema) -> Callable[[bytes], str | None]:
    """Return the function that converts bytes to JSON; None: they cannot be read.

    Raises:
        ValueError: the schema is invalid, or has arrays of items without bytes: a few bytes may have any number of
            them.
    """
    names: dict[str, Any] = {}
    words: set[str] = set()
    try:
        for need in schema.needs:
            fastavro.parse_schema(json.loads(need), named_schemas=names, expand=True)
        field = {"name": VALUE, "type": json.loads(schema.text)}
        whole = {"type": "record", "name": "SnapkafkaValue", "fields": [field]}
        parsed: Any = fastavro.parse_schema(whole, named_schemas=names, expand=True)
        _has_bytes(parsed, words)
    except Exception as error:  # of fastavro and of whatever stands in the place of a schema
        raise ValueError(f"{type(error).__name__}: {error}") from error
    # A name that is still there is of a type that contains itself. At some thousand levels the reader in C ends the
    # process, where the one in Python raises.
    read = in_python.schemaless_reader if words & names.keys() else fastavro.schemaless_reader

    def decoded(raw: bytes) -> str | None:
        try:
            found: Any = read(BytesIO(raw), parsed, None)
            return as_json(found[VALUE], _plain)
        except Exception:  # damaged bytes make fastavro raise nearly anything
            return None

    return decoded


def _plain(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else msgspec.to_builtins(value)


def _has_bytes(of: Any, words: set[str]) -> bool:
    """Return whether each value of a type has a byte; gather the types that are words.

    Raises:
        ValueError: the type has an array of items without bytes.
    """
    if isinstance(of, str):
        words.add(of)
        return of != "null"
    if isinstance(of, list):
        return bool([_has_bytes(branch, words) for branch in of])
    if (kind := of["type"]) in ("record", "error"):
        return True in [_has_bytes(field["type"], words) for field in of["fields"]]
    if kind == "fixed":
        return bool(of["size"] > 0)
    has_bytes = _has_bytes(of.get("items", of.get("values", kind)), words)
    if kind == "array" and not has_bytes:
        raise ValueError("an array of items without bytes")
    return has_bytes or kind == "map"


def read_schemas(given: Iterable[str]) -> dict[str, str]:
    """Read the texts of schemas from files, by their subjects.

    Args:
        given: `name=file`; a name is `TOPIC-key`, `TOPIC-value`, or a number in a schema registry.

    Raises:
        BadInputError: a name is not one of these, or a file cannot be read or is not a schema.
    """
    schemas = {}
    for item in given:
        name, equals, path = item.rpartition("=")
        if not equals or not (name.isdecimal() or name.endswith(("-key", "-value"))):
            raise BadInputError(
                f"{item} is not NAME=FILE",
                field="avro",
                hint="NAME is TOPIC-key, TOPIC-value, or the number of a schema in a registry",
            )
        try:
            schemas[name] = Path(path).read_text(encoding="utf-8")
            reader_of(Schema(schemas[name]))
        except (OSError, ValueError) as error:
            raise BadInputError(f"invalid Avro schema {path}: {error}", hint="check --avro") from error
    return schemas
