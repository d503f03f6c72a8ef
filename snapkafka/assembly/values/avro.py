"""Avro to JSON by fastavro. Decimals are texts with all digits, times and dates are texts by ISO 8601, bytes are in
base64, NaN and infinities are texts; a value of a union is the value alone."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import fastavro
from fastavro import _read_py as in_python

from snapkafka.assembly.schemas import UNIX_EPOCH
from snapkafka.errors import BadInputError

from .json_text import with_quoted_constants

#: Types of schemas, as registries call them.
AVRO: Final = "AVRO"
JSON: Final = "JSON"
#: The names of our own forms of logical types begin so: fastavro's readers make objects, and are for all of a process.
OURS: Final = "snapkafka-"
#: The one field of the record in which every schema stands: its bytes are those of the value.
VALUE: Final = "value"
#: Digits below a second.
DIGITS: Final = {"millis": 3, "micros": 6, "nanos": 9}


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
    try:
        for need in schema.needs:
            fastavro.parse_schema(_in_our_forms(json.loads(need)), named_schemas=names)
        field = {"name": VALUE, "type": _in_our_forms(json.loads(schema.text))}
        whole = {"type": "record", "name": "SnapkafkaValue", "fields": [field]}
        parsed: Any = fastavro.parse_schema(whole, named_schemas=names)
        is_recursive = _Walk(names).is_recursive(parsed)
    except Exception as error:  # of fastavro and of whatever stands in the place of a schema
        raise ValueError(f"{type(error).__name__}: {error}") from error
    # The reader in C ends the process at some thousand levels, where the one in Python raises.
    read = in_python.schemaless_reader if is_recursive else fastavro.schemaless_reader

    def decoded(raw: bytes) -> str | None:
        try:
            found: Any = read(BytesIO(raw), parsed, None)
            text = json.dumps(found[VALUE], default=_plain, ensure_ascii=False, separators=(",", ":"))
            text = with_quoted_constants(text)
            text.encode()
        except Exception:  # damaged bytes make fastavro raise nearly anything
            return None
        return text

    return decoded


class _Walk:
    """A walk through a parsed schema."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._has_bytes: dict[str, bool | None] = {}  # of a record; None: the walk is inside of it
        self._recursive = False

    def is_recursive(self, parsed: Any) -> bool:
        self._of(parsed)
        return self._recursive

    def _of(self, of: Any) -> bool:
        """Return whether each value of a type has a byte."""
        if isinstance(of, list):
            return bool([self._of(branch) for branch in of])
        if isinstance(of, str):
            return self._of(self._names[of]) if of in self._names else of != "null"
        match of["type"]:
            case "record" | "error":
                return self._of_record(of)
            case "array":
                if not self._of(of["items"]):
                    raise ValueError("an array of items without bytes")
                return True
            case "map":
                self._of(of["values"])
                return True
            case "enum":
                return True
            case "fixed":
                return bool(of["size"] > 0)
            case inner:
                return self._of(inner)

    def _of_record(self, of: Any) -> bool:
        name = of["name"]
        if name in self._has_bytes:
            self._recursive |= self._has_bytes[name] is None
            return self._has_bytes[name] is not False
        self._has_bytes[name] = None
        fields = [self._of(field["type"]) for field in of["fields"]]
        self._has_bytes[name] = any(fields)
        return any(fields)


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


# --- Logical types --------------------------------------------------------------------------------------------------


def _in_our_forms(schema: Any) -> Any:
    """Return a schema whose logical types are read by `_FORMS`; others are read as what they are made of."""
    if isinstance(schema, list):
        return [_in_our_forms(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _in_our_forms(value) for name, value in schema.items() if name != "logicalType"}
    logical = schema.get("logicalType")
    return (
        found | {"logicalType": f"{OURS}{logical}"} if f"{schema.get('type')}-{logical}" in _FORMS else found
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    raise TypeError(value)


def _decimal(raw: bytes, of: Any = None, reader: Any = None) -> str:
    number, scale = int.from_bytes(raw, "big", signed=True), of.get("scale", 0)
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign, point = "-" if number < 0 else "", len(digits) - scale
    return f"{sign}{digits[:point]}" + (f".{digits[point:]}" if scale else "")


def _duration(raw: bytes, of: Any = None, reader: Any = None) -> dict[str, int]:
    return dict(zip(("months", "days", "millis"), struct.unpack("<III", raw), strict=True))


def _date(days: int, of: Any = None, reader: Any = None) -> str | int:
    try:
        return (UNIX_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:  # a year that a date does not have
        return days


def _time(number: int, of: Any, reader: Any = None) -> str | int:
    found = _timestamp(number, of)
    return found[11:] if isinstance(found, str) and found.startswith("1970-01-01T") else number


def _timestamp(number: int, of: Any, reader: Any = None) -> str | int:
    kind, _, unit = of["logicalType"].removeprefix(OURS).rpartition("-")
    digits = DIGITS[unit]
    seconds, below = divmod(number, 10**digits)
    try:
        whole = (UNIX_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return number
    return f"{whole}.{below:0{digits}}{'Z' if kind == 'timestamp' else ''}"


_FORMS: Final[Mapping[str, Callable[..., Any]]] = {
    "bytes-decimal": _decimal,
    "fixed-decimal": _decimal,
    "fixed-duration": _duration,
    "int-date": _date,
    "int-time-millis": _time,
    "long-time-micros": _time,
    **{f"long-{local}timestamp-{unit}": _timestamp for local in ("", "local-") for unit in DIGITS},
}
for _name, _form in _FORMS.items():
    of, _, logical = _name.partition("-")
    for _readers in (fastavro.read.LOGICAL_READERS, in_python.LOGICAL_READERS):
        _readers[f"{of}-{OURS}{logical}"] = _form
