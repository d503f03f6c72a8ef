"""The Avro schemas of the ledger's records, and their values in Avro's terms: both follow from the record classes.

The ends and ranges of many partitions, which alike fill most of a ledger, are columns: a record of one list for each
field, and the number of items. Numbers are differences, to that of the item before or to another number of the same
item, so most are small; a column of equal differences has one of them. A text is written once, and each item has its
number among the texts. A column that is missing, as the writer did not know the field, has the field's default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, fields
from functools import cache, partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from snapkafka.protocol import offsets, records
from snapkafka.protocol._dataclass import InParts
from snapkafka.protocol.records import (
    ChangelogEnd,
    ChannelRange,
    LedgerRecord,
    LogEnd,
    SentEnd,
    TopicPartition,
)

NAMESPACE: Final = "snapkafka.ledger"
#: No list is longer: a record of 256 KB names some 6,000 partitions, and a damaged one must not fill the memory.
ITEMS_MAX: Final = 100_000
#: The field that holds the last fields of a record in parts, as bytes with a schema of their own.
REST: Final = "ends"

#: Makes a value of Avro of one of ours, or back.
Convert = Callable[[Any], Any]


#: Lists of these are columns.
IN_COLUMNS: Final = frozenset({SentEnd, ChangelogEnd, LogEnd, ChannelRange, TopicPartition})


class Beside(NamedTuple):
    """A number that is written as its difference to another one of the same item. 0 stands for `unknown`, which says
    that there is none."""

    field: str
    unknown: int


BESIDE: Final[dict[tuple[type, str], Beside]] = {
    (SentEnd, "marker"): Beside("white_end", -1),
    (SentEnd, "earlier_seq"): Beside("last_seq", -1),
    (SentEnd, "earlier_end"): Beside("white_end", 0),
}


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    """Return the fields of a record class with their types."""
    return typing.get_type_hints(kind, vars(offsets) | vars(records) | {"LedgerRecord": LedgerRecord})


def is_record(kind: Any) -> bool:
    """Return whether this is a record class, or a pair with names."""
    return isinstance(kind, type) and (hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"))


def head_and_rest(kind: type) -> tuple[list[str], list[str]]:
    """Return the fields that are read at once, and those that are read when somebody asks for one."""
    rest = kind.rest() if issubclass(kind, InParts) else []
    return [name for name in hints_of(kind) if name not in rest], rest


# -- schemas ----------------------------------------------------------------------------------------------------------


def schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of a record class; of one in parts without its last fields."""
    head, rest = head_and_rest(kind)
    schema = _record(kind, set(), fields_of=head)
    if rest:
        schema["fields"].append({"name": REST, "type": "bytes"})
    return schema


def schema_of_rest(kind: type) -> dict[str, Any]:
    """Return the schema of the last fields of a record in parts."""
    return _record(kind, set(), name=f"{kind.__name__}Ends", fields_of=head_and_rest(kind)[1])


def _record(
    kind: type, known: set[str], *, name: str = "", fields_of: Iterable[str] | None = None
) -> dict[str, Any]:
    name = name or kind.__name__
    known.add(name)
    found = []
    for field in hints_of(kind) if fields_of is None else fields_of:
        hint = hints_of(kind)[field]
        found.append({"name": field, "type": _type(hint, known)} | _default(kind, field, hint))
    schema = {
        "type": "record",
        "name": name,
        "namespace": NAMESPACE,
        "doc": inspect.cleandoc(kind.__doc__ or ""),
    }
    return schema | {"fields": found}


def _default(kind: type, field: str, hint: Any) -> dict[str, Any]:
    value = _defaults_of(kind).get(field, MISSING)
    if value is MISSING:
        return {}
    if value == () and (item := _item_of(hint)) in IN_COLUMNS:
        return {"default": {"items": 0} | {name: _no_column(of) for name, of in hints_of(item).items()}}
    return {"default": [] if value == () else value}


@cache
def _defaults_of(kind: Any) -> dict[str, Any]:
    if not hasattr(kind, "__dataclass_fields__"):
        return {}
    return {field.name: field.default for field in fields(kind) if field.default is not MISSING}


def _no_column(hint: Any) -> Any:
    return {"texts": [], "at": []} if _primitive(hint) == "string" else []


def _type(hint: Any, known: set[str]) -> Any:
    if primitive := _primitive(hint):
        return primitive
    item = _item_of(hint) or hint
    if item is hint:
        return f"{NAMESPACE}.{hint.__name__}" if hint.__name__ in known else _record(hint, known)
    if item not in IN_COLUMNS:
        return {"type": "array", "items": _type(item, known)}
    name = f"{item.__name__}Columns"
    if name in known:
        return f"{NAMESPACE}.{name}"
    known.add(name)
    columns: list[dict[str, Any]] = [{"name": "items", "type": "long"}]
    for field, of in hints_of(item).items():
        columns.append({"name": field, "type": _column(of, known), "default": _no_column(of)})
    return {"type": "record", "name": name, "doc": inspect.cleandoc(item.__doc__ or ""), "fields": columns}


def _column(hint: Any, known: set[str]) -> Any:
    primitive = _primitive(hint)
    if primitive == "string":
        if "Texts" in known:
            return f"{NAMESPACE}.Texts"
        known.add("Texts")
        texts = [("texts", {"type": "array", "items": "string"}), ("at", {"type": "array", "items": "long"})]
        doc = "Each text once, and for each item its number."
        parts = [{"name": name, "type": kind} for name, kind in texts]
        return {"type": "record", "name": "Texts", "doc": doc, "fields": parts}
    return {"type": "array", "items": "long" if primitive == "boolean" else _type(hint, known)}


def _primitive(hint: Any) -> str:
    """Return the type in Avro's terms; empty: it is a list."""
    if hint == LedgerRecord or hint is bytes:
        return "bytes"
    if hint is str or typing.get_origin(hint) is typing.Literal:
        return "string"
    return {int: "long", bool: "boolean"}.get(hint, "")


def _item_of(hint: Any) -> Any:
    """Return the type of the items of a list; None: it is none."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


# -- values -----------------------------------------------------------------------------------------------------------


def to_plain(kind: type, names: Sequence[str], encode: Convert) -> Convert:
    """Return a function that makes a dict for Avro of these fields of a record."""
    lists = [(name, _plain_of(hints_of(kind)[name], encode)) for name in names if not _is_atom(kind, name)]

    def plain(record: Any) -> dict[str, Any]:
        found = {name: getattr(record, name) for name in names}
        for name, convert in lists:
            found[name] = convert(found[name])
        return found

    return plain


def from_plain(kind: type, names: Sequence[str], decode: Convert) -> Convert:
    """Return a function that turns the dict of these fields that Avro has read into that of their values.

    It raises a `ValueError` where columns do not fit together.
    """
    lists = [(name, _value_of(hints_of(kind)[name], decode)) for name in names if not _is_atom(kind, name)]

    def values(plain: dict[str, Any]) -> dict[str, Any]:
        for name, convert in lists:
            plain[name] = convert(plain[name])
        return plain

    return values


def _is_atom(kind: type, name: str) -> bool:
    return hints_of(kind)[name] != LedgerRecord and bool(_primitive(hints_of(kind)[name]))


@cache
def _is_plain(kind: Any) -> bool:
    """Return whether a record has nothing but atoms and lists of them, or of such records."""
    hints = [*hints_of(kind).values()]
    items = [_item_of(hint) or hint for hint in hints]
    return all(
        item not in IN_COLUMNS and item != LedgerRecord and (not is_record(item) or _is_plain(item))
        for item in items
    )


def _plain_of(hint: Any, encode: Convert) -> Convert:
    if hint == LedgerRecord:
        return encode
    item = _item_of(hint)
    if item in IN_COLUMNS:
        return partial(_packed, item)
    if not is_record(item):
        return list
    if _is_plain(item):
        return msgspec.to_builtins
    plain = to_plain(item, [*hints_of(item)], encode)
    return lambda values: [plain(value) for value in values]


def _value_of(hint: Any, decode: Convert) -> Convert:
    if hint == LedgerRecord:
        return decode
    item = _item_of(hint)
    if item in IN_COLUMNS:
        return partial(_unpacked, item)
    if not is_record(item):
        return tuple
    if _is_plain(item):
        return lambda plain: msgspec.convert(plain, hint)
    values = from_plain(item, [*hints_of(item)], decode)
    return lambda plain: tuple(item(**values(part)) for part in plain)


# -- columns ----------------------------------------------------------------------------------------------------------


def _packed(item: type, values: Sequence[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"items": len(values)}
    for name, hint in hints_of(item).items():
        column = [getattr(value, name) for value in values]
        if beside := BESIDE.get((item, name)):
            base = [getattr(value, beside.field) for value in values]
            found[name] = _shortened(map(_coder(beside.unknown), column, base))
        elif hint is str:
            numbers = {text: number for number, text in enumerate(dict.fromkeys(column))}
            found[name] = {"texts": [*numbers], "at": _differences([numbers[text] for text in column])}
        elif hint is int or hint is bool:
            found[name] = _differences(column)
        else:
            found[name] = msgspec.to_builtins(column) if any(column) else []
    return found


def _unpacked(item: Any, plain: dict[str, Any]) -> tuple[Any, ...]:
    size = plain["items"]
    if not 0 <= size <= ITEMS_MAX:
        raise ValueError(f"a list of {size} items")
    if not size:
        return ()
    found: dict[str, Sequence[Any]] = {}
    for name, hint, beside in _columns_of(item):
        column = plain[name]
        if not (column["texts"] if hint is str else column):
            found[name] = [_default_of(item, name)] * size
        elif beside is not None:
            found[name] = [*map(_decoder(beside.unknown), _lengthened(column, size), found[beside.field])]
        elif hint is str:
            found[name] = [_text(column["texts"], at) for at in accumulate(_lengthened(column["at"], size))]
        elif hint is int or hint is bool:
            found[name] = [*map(hint, accumulate(_lengthened(column, size)))]
        else:
            found[name] = msgspec.convert(_lengthened(column, size), list[hint])  # type: ignore[valid-type]
    rows = zip(*found.values(), range(size), strict=True)  # whoever is shorter or longer is damaged
    return tuple([item(**dict(zip(found, row, strict=False))) for row in rows])


@cache
def _columns_of(item: type) -> list[tuple[str, Any, Beside | None]]:
    """Return the fields with their types, and beside which other one a number lies; such come last."""
    found = [(name, hint, BESIDE.get((item, name))) for name, hint in hints_of(item).items()]
    return sorted(found, key=lambda column: column[2] is not None)


def _default_of(item: type, name: str) -> Any:
    if name not in _defaults_of(item):
        raise ValueError(f"no column {name} of {item.__name__}")
    return _defaults_of(item)[name]


def _text(texts: Sequence[str], at: int) -> str:
    if not 0 <= at < len(texts):
        raise ValueError(f"text {at} of {len(texts)}")
    return texts[at]


def _differences(numbers: Sequence[int]) -> list[int]:
    return _shortened(now - before for now, before in zip(numbers, [0, *numbers], strict=False))


def _shortened(numbers: Iterator[int]) -> list[int]:
    """Return a column as it is written: equal numbers once."""
    column = [*numbers]
    return column[:1] if column and column.count(column[0]) == len(column) else column


def _lengthened(column: Sequence[int], size: int) -> Sequence[int]:
    return [*column] * size if len(column) == 1 else column


def _coder(unknown: int) -> Callable[[int, int], int]:
    """Make a function that writes a number beside another one."""

    def code(number: int, base: int) -> int:
        if number == unknown:
            return 0
        return number - base + 1 if number >= base else number - base

    return code


def _decoder(unknown: int) -> Callable[[int, int], int]:
    """Make a function that reads a number beside another one."""

    def decode(code: int, base: int) -> int:
        if code == 0:
            return unknown
        return base + code - 1 if code > 0 else base + code

    return decode
