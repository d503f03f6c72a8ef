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
from itertools import count
from typing import Any

from snapkafka.protocol import records

#: Reads one value: the bytes, and the position where it begins; returns the value, and the position behind it.
Read = Callable[[bytes, int], tuple[Any, int]]

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
        item, at = {item}(data, at)
        {to}.append(item)
{to} = (*{to},)
"""
)


def hints_of(kind: type) -> dict[str, Any]:
    """Return the fields of a record type with their types, in their order."""
    return typing.get_type_hints(kind, vars(records))


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
        self._scope: dict[str, Any] = {"within": within, "new": object.__new__}

    def reader(self, kind: type) -> Read:
        """Return the reader of a record type."""
        return typing.cast(Read, self._scope[self._name(kind)])

    def _name(self, kind: Any) -> str:
        if kind not in self._names:
            name = self._names[kind] = f"read_{len(self._names)}"
            body = self._record(kind, name) if is_record(kind) else self._value(kind, "found")
            source = f"def {name}(data, at):\n" + "".join(f"    {line}\n" for line in body.splitlines())
            exec(source + "    return found, at\n", self._scope)
        return self._names[kind]

    def _record(self, kind: type, name: str) -> str:
        """Return the code that reads the fields in their order, and makes the record of them."""
        fields = [(f"_{place}", field, hint) for place, (field, hint) in zip(count(), hints_of(kind).items())]
        code = "".join(self._value(hint, to) for to, _, hint in fields)
        self._scope[f"type_of_{name}"] = kind
        if issubclass(kind, tuple):
            return code + f"found = type_of_{name}({', '.join(to for to, _, _ in fields)})\n"
        code += (
            f"found = new(type_of_{name})\n"  # it is frozen, so its slots are filled as its `__init__` does
        )
        for to, field, _ in fields:
            self._scope[f"set_{name}_{field}"] = getattr(kind, field).__set__
            code += f"set_{name}_{field}(found, {to})\n"
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
        if typing.get_origin(kind) is tuple:
            return ARRAY.format(to=to, item=self._name(typing.get_args(kind)[0]))
        assert kind is str or typing.get_origin(kind) is typing.Literal, f"no Avro type for {kind}"
        return BYTES.format(to=to) + f"{to} = {to}.decode()\n"
