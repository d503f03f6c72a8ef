"""Readers of Avro's binary encoding, compiled for one record type each.

A reader is one function over the bytes, without a decoder object and without a call per value: a record of a ledger has
some two hundred values, and a service that reads a ledger at its start decodes a hundred thousand records on the loop
of its host. `dataclasses` compiles `__init__` in the same way.

A reader checks no limits: an index beyond the end raises `IndexError`, and a text that is cut short ends beyond the
end, which the caller sees from the position that it is given.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, Final

from snapkafka.protocol import records
from snapkafka.protocol._dataclass import InParts

from . import columns
from .columns import FORMS, unpacked

#: Reads one value: the bytes, and the position where it begins; returns the value, and the position behind it.
Read = Callable[[bytes, int], tuple[Any, int]]

#: Errors to which damaged bytes lead; any other one is a fault of ours.
DAMAGE: Final = (ValueError, IndexError, OverflowError, MemoryError)
#: A number: seven bits a byte, the lowest ones first; the last bit of the number is its sign.
LONG = """\
{to} = data[at]
at += 1
if {to} > 127:
    {to} &= 127
    shift = 7
    while (byte := data[at]) > 127:
        {to} |= (byte & 127) << shift
        shift += 7
        at += 1
    {to} |= byte << shift
    at += 1
{to} = ({to} >> 1) ^ -({to} & 1)
"""
#: A text, or the bytes of a record within a record: its length, then so many bytes.
BYTES = (
    LONG.replace("{to}", "size")
    + """\
if size < 0:
    raise ValueError("a length below zero")
{to} = data[at : at + size]
at += size
"""
)
#: An item of a list: a number, and anything else.
NUMBER = LONG.replace("{to}", "item")
ITEM = "item, at = {item}(data, at)\n"
#: A list: blocks, each with the number of its items first; below zero, the size of the block in bytes comes next.
ARRAY = (
    "{to} = []\nwhile True:\n"
    + "".join(f"    {line}\n" for line in LONG.replace("{to}", "left").splitlines())
    + """\
    if left == 0:
        break
    if left < 0:
        left = -left
        while data[at] > 127:
            at += 1
        at += 1
    for _ in range(left):
{read}
        {to}.append(item)
{to} = (*{to},)
"""
)


def hints_of(kind: type) -> dict[str, Any]:
    """Return the fields of a record type with their types, in their order."""
    return typing.get_type_hints(kind, {**vars(records), **vars(columns)})


def columns_of(kind: Any) -> type | None:
    """Return the type whose lists are written as columns, where `kind` is such a list."""
    item = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
    return item if item in FORMS else None


def is_record(kind: Any) -> bool:
    """Return whether it is a record type: a dataclass, or a named tuple."""
    return isinstance(kind, type) and hasattr(kind, "__annotations__")


class Readers:
    """The readers of record types and of all that these are made of, compiled when they are asked for.

    Args:
        within: decodes a record that lies within a record, from its bytes.
    """

    def __init__(self, within: Callable[[bytes], Any]) -> None:
        self._names: dict[Any, str] = {}
        self._scope: dict[str, Any] = {
            "within": within,
            "new": object.__new__,
            "unpacked": unpacked,
            "defer": _defer,
        }

    def reader(self, kind: type) -> Read:
        """Return the reader of a record type."""
        return typing.cast(Read, self._scope[self._name(kind)])

    def _name(self, kind: Any) -> str:
        if kind not in self._names:
            name = self._names[kind] = f"read_{len(self._names)}"
            body = self._record(kind, name) if is_record(kind) else self._value(kind, "found")
            self._compile(name, "data, at", body)
        return self._names[kind]

    def _compile(self, name: str, arguments: str, body: str) -> None:
        source = f"def {name}({arguments}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
        exec(source + "    return found, at\n", self._scope)

    def _record(self, kind: type, name: str) -> str:
        """Return the code that reads the fields in their order, and makes the record of them."""
        hints = hints_of(kind)
        self._scope[f"type_of_{name}"] = kind
        if issubclass(kind, tuple):
            code = "".join(self._value(hint, f"_{field}") for field, hint in hints.items())
            return code + f"found = type_of_{name}({', '.join(f'_{field}' for field in hints)})\n"
        rest = kind.rest() if issubclass(kind, InParts) else []
        now = {field: hint for field, hint in hints.items() if field not in rest}
        code = self._fields(kind, name, now, f"found = new(type_of_{name})\n")
        if rest:
            self._compile(
                f"rest_of_{name}",
                "data, at, found",
                self._fields(kind, name, {f: hints[f] for f in rest}, ""),
            )
            code += f"at = defer(found, rest_of_{name}, data, at)\n"
        return code

    def _fields(self, kind: type, name: str, hints: dict[str, Any], made: str) -> str:
        """Return the code that reads these fields in their order, and sets them; between the two the record is made.
        It is frozen, so its slots are filled as its `__init__` does."""
        code = "".join(self._value(hint, f"_{field}") for field, hint in hints.items()) + made
        for field in hints:
            self._scope[f"set_{name}_{field}"] = getattr(kind, field).__set__
            code += f"set_{name}_{field}(found, _{field})\n"
        return code

    def _value(self, kind: Any, to: str) -> str:
        """Return the code that reads one value into the variable `to`."""
        if kind is int:
            return LONG.format(to=to)
        if kind is bool:
            return f"{to} = data[at] == 1\nat += 1\n"
        if kind == records.LedgerRecord:
            return BYTES.format(to=to) + f"{to} = within({to})\n"
        if is_record(kind):
            return f"{to}, at = {self._name(kind)}(data, at)\n"
        if (item := columns_of(kind)) is not None:
            self._scope[f"type_of_{item.__name__}"] = item
            read = f"{to}, at = {self._name(FORMS[item].columns)}(data, at)\n"
            return read + f"{to} = unpacked(type_of_{item.__name__}, {to})\n"
        if typing.get_origin(kind) is tuple:
            item = typing.get_args(kind)[0]
            read = NUMBER if item is int else ITEM.format(item=self._name(item))
            return ARRAY.format(
                to=to, read="".join(f"        {line}\n" for line in read.splitlines()).rstrip()
            )
        assert kind is str or typing.get_origin(kind) is typing.Literal, f"no Avro type for {kind}"
        return BYTES.format(to=to) + f"{to} = {to}.decode()\n"


def _defer(record: InParts, read: Callable[..., tuple[Any, int]], data: bytes, at: int) -> int:
    """Leave the rest of the bytes until somebody asks for what stands in them; return where they end."""

    def read_rest(of: InParts) -> bool:
        try:
            return read(data, at, of)[1] == len(data)
        except DAMAGE:
            return False

    record.defer(read_rest)
    return len(data)
