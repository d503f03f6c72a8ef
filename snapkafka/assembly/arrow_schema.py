"""Arrow schemas of Spark's DDL, for both engines."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa  # type: ignore[import-untyped]

_SIMPLE: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_schema(ddl: str) -> pa.Schema:
    """Return the Arrow schema of columns as `name type, name type`; a type has no blanks: `struct<name:type>`."""
    return pa.schema([_field(part, " ") for part in ddl.split(", ")])


def _field(part: str, separator: str) -> pa.Field:
    name, kind = part.split(separator, 1)
    return pa.field(name, _type(kind))


def _type(kind: str) -> pa.DataType:
    if found := re.fullmatch(r"array<(.*)>", kind):
        return pa.list_(_type(found[1]))
    if found := re.fullmatch(r"map<(.*?),(.*)>", kind):
        return pa.map_(*map(_type, found.groups()))
    if found := re.fullmatch(r"struct<(.*)>", kind):
        return pa.struct([_field(part, ":") for part in found[1].split(",")])
    return _SIMPLE[kind]
