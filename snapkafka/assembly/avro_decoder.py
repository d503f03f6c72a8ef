"""Avro to JSON in Python, for any schema: Spark has no columns for recursive records or long decimals.

Values are resolved to the reader's schema by Avro's rules. In JSON a value of a union of null and one type is the value
alone; of other unions it stands under the name of its type, `{"string": "a"}`, as in Avro's own JSON. Decimals are
texts with all digits, times and dates are texts by ISO 8601, bytes are in base64, NaN and infinities are texts.

This module runs on Spark's workers, which need not have snapkafka: it imports nothing but the standard library.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from .avro_types import LOGICAL, Field, Type, parsed

#: To what a value may be promoted.
PROMOTED: Mapping[str, tuple[str, ...]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
#: Digits below a second.
DIGITS: Mapping[str, int] = {"millis": 3, "micros": 6, "nanos": 9}
#: A value has no more items in arrays and maps, besides one for each of its bytes: items may have none.
EMPTY_ITEMS_MAX = 1_000_000
#: The greatest number of 32 bits.
FLOAT_MAX = 3.4028235e38
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Data:
    """Bytes, how far they have been read, and how many items of arrays and maps they held up to there."""

    raw: bytes
    at: int = 0
    items: int = 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.raw):
            raise ValueError("the bytes end")
        part = self.raw[self.at : end]
        self.at = end
        return part

    def long(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")
        return (number >> 1) ^ -(number & 1)


#: Reads a value, in the types that JSON has.
Reads: TypeAlias = Callable[[Data], Any]


def decoder(writer: str, reader: str = "") -> Callable[[bytes], str | None]:
    """Return the function that converts bytes to JSON; None: they cannot be read.

    Args:
        writer: the schema by which they were written.
        reader: the schema to which they are resolved; empty: the same.

    Raises:
        ValueError: a schema is invalid.
    """
    written = parsed(writer)
    read = _Resolver().or_failing(written, parsed(reader) if reader else written)

    def decoded(raw: bytes) -> str | None:
        try:
            text = json.dumps(read(Data(raw)), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            text.encode()
        except (ValueError, IndexError, OverflowError, RecursionError):
            return None
        return text

    return decoded


# --- Resolution -----------------------------------------------------------------------------------------------------


class _Resolver:
    """A resolver of types, each pair of them once: a recursive record refers to itself."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Reads] = {}

    def resolved(self, written: Type, wanted: Type) -> Reads:
        """Return the function that reads a value of the one type as the other.

        Raises:
            ValueError: no value of the one is one of the other.
        """
        if written.kind == "union":
            return self._of_union(written, wanted)
        if wanted.kind == "union":
            return self._as_branch(written, wanted)
        if not _match(written, wanted):
            raise ValueError(f"{written.name} is no {wanted.name}")
        if wanted.kind == "record":
            return self._of_record(written, wanted)
        if wanted.kind in ("array", "map"):
            return self._of_items(written, wanted)
        if wanted.kind == "enum":
            return _enum(written, wanted)
        return _simple(written, wanted)

    def _of_union(self, written: Type, wanted: Type) -> Reads:
        branches = [self.or_failing(branch, wanted) for branch in written.branches]

        def read(data: Data) -> Any:
            number = data.long()
            if number < 0:
                raise ValueError("no such branch")
            return branches[number](data)

        return read

    def or_failing(self, written: Type, wanted: Type) -> Reads:
        """Resolve a type; one that does not fit is an error only where a value has it."""
        try:
            return self.resolved(written, wanted)
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:  # a default may be anything
            text = str(error)

            def fail(data: Data) -> Any:
                raise ValueError(text)

            return fail

    def _as_branch(self, written: Type, wanted: Type) -> Reads:
        same = [branch for branch in wanted.branches if branch.kind == written.kind]
        exact = [branch for branch in same if branch.name == written.name]
        for branch in (*exact, *same, *wanted.branches):
            if _match(written, branch):
                read = self.resolved(written, branch)
                alone = branch.kind == "null" or _is_optional(wanted)
                return read if alone else _under(branch.name, read)
        raise ValueError(f"{written.name} is in no branch")

    def _of_record(self, written: Type, wanted: Type) -> Reads:
        key = (id(written), id(wanted))
        if key not in self._known:
            found: list[Reads] = []
            self._known[key] = lambda data: found[0](data)  # noqa: PLW0108 -- it is not there yet
            try:
                found.append(self._fields(written, wanted))
            except ValueError:
                del self._known[key]
                raise
        return self._known[key]

    def _fields(self, written: Type, wanted: Type) -> Reads:
        parts: list[tuple[str, Reads]] = []
        taken: set[str] = set()
        for it in written.fields:
            target = next((of for of in wanted.fields if it.name in of.names and of.name not in taken), None)
            taken |= {target.name} if target else set()
            parts.append(
                (target.name if target else "", self.or_failing(it.type, target.type if target else it.type))
            )
        order = {it.name: None if it.name in taken else _default(it) for it in wanted.fields}

        def read(data: Data) -> Any:
            found = dict(order)
            for name, read_field in parts:
                value = read_field(data)
                if name:
                    found[name] = value
            return found

        return read

    def _of_items(self, written: Type, wanted: Type) -> Reads:
        assert written.items is not None and wanted.items is not None
        read = self.resolved(written.items, wanted.items)
        if wanted.kind == "array":
            return lambda data: [read(data) for _ in _counted(data)]
        return lambda data: {_text(data): read(data) for _ in _counted(data)}


def _under(name: str, read: Reads) -> Reads:
    return lambda data: {name: read(data)}


def _match(written: Type, wanted: Type) -> bool:
    if wanted.kind == "union":
        return True
    if written.kind != wanted.kind:
        return wanted.kind in PROMOTED.get(written.kind, ())
    if wanted.kind in ("record", "enum", "fixed"):
        return written.name.rpartition(".")[2] in wanted.names and written.size == wanted.size
    return True


def _is_optional(union: Type) -> bool:
    return sum(branch.kind != "null" for branch in union.branches) <= 1


def _default(field: Field) -> Any:
    if not field.default:
        raise ValueError(f"field {field.name} was not written and has no default")
    return _of_json(field.type, field.default[0])


def _of_json(of: Type, value: Any) -> Any:
    """Convert a default to the form of values that are read."""
    if of.kind == "union":
        branch = of.branches[0]
        found = _of_json(branch, value)
        return found if branch.kind == "null" or _is_optional(of) else {branch.name: found}
    if of.kind == "array" and of.items:
        return [_of_json(of.items, it) for it in value]
    if of.kind == "map" and of.items:
        return {key: _of_json(of.items, it) for key, it in value.items()}
    if of.kind == "record":
        return {
            it.name: _of_json(it.type, value[it.name]) if it.name in value else _default(it)
            for it in of.fields
        }
    if of.kind in ("bytes", "fixed"):
        return _FORMS.get(of.logical, _base64)(value.encode("latin-1"), of)
    if of.kind in ("float", "double"):
        return _number(float(value))
    return _FORMS[of.logical](value, of) if of.logical else value


# --- Values ---------------------------------------------------------------------------------------------------------


def _simple(written: Type, wanted: Type) -> Reads:
    read, kind = _RAW[written.kind](written), wanted.kind
    logical = written if written.logical and wanted.logical else wanted
    if logical.logical:
        form = _FORMS[logical.logical]
        return lambda data: form(read(data), logical)
    if kind == "string":
        return lambda data: read(data).decode()
    if kind in ("bytes", "fixed"):
        return lambda data: _base64(read(data), wanted)
    if kind in ("float", "double") and written.kind in ("int", "long"):
        return lambda data: float(read(data))
    if kind in ("float", "double"):
        return lambda data: _number(read(data))
    return read


def _enum(written: Type, wanted: Type) -> Reads:
    def read(data: Data) -> Any:
        number = data.long()
        if number < 0:
            raise ValueError("no such symbol")
        symbol = written.symbols[number]
        if symbol in wanted.symbols:
            return symbol
        if wanted.default is None:
            raise ValueError("no such symbol")
        return wanted.default

    return read


def _counted(data: Data) -> Any:
    """Yield once for each item of the blocks of an array or a map."""
    while count := data.long():
        if count < 0:
            data.long()
            count = -count
        data.items += count
        if data.items > len(data.raw) + EMPTY_ITEMS_MAX:
            raise ValueError("more items than bytes")
        yield from range(count)


def _text(data: Data) -> str:
    return data.take(data.long()).decode()


def _boolean(data: Data) -> bool:
    byte = data.take(1)[0]
    if byte > 1:
        raise ValueError("no boolean")
    return byte == 1


def _int(data: Data) -> int:
    number = data.long()
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError("a number of more than 32 bits")
    return number


def _float(data: Data) -> float:
    """Read a number of 32 bits: the shortest one that is the same in these."""
    raw = data.take(4)
    number: float = struct.unpack("<f", raw)[0]
    if not math.isfinite(number):
        return number
    shorter = (float(f"{number:.{digits}g}") for digits in range(1, 9))
    return next(
        (it for it in shorter if abs(it) <= FLOAT_MAX and struct.pack("<f", it) == raw),
        float(f"{number:.9g}"),
    )


def _double(data: Data) -> float:
    found: float = struct.unpack("<d", data.take(8))[0]
    return found


_RAW: Mapping[str, Callable[[Type], Reads]] = {
    "null": lambda of: lambda data: None,
    "boolean": lambda of: _boolean,
    "int": lambda of: _int,
    "long": lambda of: Data.long,
    "float": lambda of: _float,
    "double": lambda of: _double,
    "bytes": lambda of: lambda data: data.take(data.long()),
    "string": lambda of: lambda data: data.take(data.long()),
    "fixed": lambda of: lambda data: data.take(of.size),
}


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _base64(raw: bytes, of: Type) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decimal(raw: bytes, of: Type) -> str:
    number = int.from_bytes(raw, "big", signed=True)
    digits = str(abs(number)).rjust(of.scale + 1, "0")
    sign, point = "-" if number < 0 else "", len(digits) - of.scale
    return f"{sign}{digits[:point]}" + (f".{digits[point:]}" if of.scale else "")


def _duration(raw: bytes, of: Type) -> dict[str, int]:
    return dict(zip(("months", "days", "millis"), struct.unpack("<III", raw), strict=True))


def _date(days: int, of: Type) -> str | int:
    try:
        return (EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:  # a year that a date does not have
        return days


def _time(number: int, of: Type) -> str | int:
    found = _timestamp(number, of)
    return found[11:] if isinstance(found, str) and found.startswith("1970-01-01T") else number


def _timestamp(number: int, of: Type) -> str | int:
    digits = DIGITS[of.logical.rpartition("-")[2]]
    seconds, below = divmod(number, 10**digits)
    try:
        whole = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    except OverflowError:
        return number
    return f"{whole}.{below:0{digits}}{'Z' if of.logical.startswith('timestamp') else ''}"


_FORMS: Mapping[str, Callable[[Any, Type], Any]] = {
    "decimal": _decimal,
    "duration": _duration,
    "date": _date,
    "time-millis": _time,
    "time-micros": _time,
    **{name: _timestamp for name in LOGICAL if "timestamp" in name},
}
