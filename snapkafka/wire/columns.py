"""Columns: how the ends and ranges of many partitions are written, which alike fill most of a ledger.

A list of them is one column for each field. Texts are runs: a text, and for how many items it stands. Numbers are
differences, to that of the item before or to another number of the same item, so most are small; a column of equal
differences is written as one. What is left compresses well. A record needs no other one to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any, Final, NamedTuple

from snapkafka.protocol._dataclass import value
from snapkafka.protocol.records import ChangelogEnd, ChannelRange, LogEnd, SentEnd, SeqRange

#: No list is longer: a record of 256 KB names some 6,000 partitions, and a damaged one must not fill the memory.
ITEMS_MAX: Final = 100_000


@value
class Run:
    """A text, and for how many items it stands."""

    text: str
    items: int


@value
class Unacknowledged:
    """The seqs that were never acknowledged in one partition: the place of its item in the list, from 0."""

    item: int
    seqs: tuple[SeqRange, ...]


@value
class SentEndColumns:
    """A list of `SentEnd`."""

    topic: tuple[Run, ...]
    partition: tuple[int, ...]
    white_end: tuple[int, ...]
    last_seq: tuple[int, ...]
    marker: tuple[int, ...]
    unacknowledged: tuple[Unacknowledged, ...]
    landed_end: tuple[int, ...]
    earlier_seq: tuple[int, ...]
    earlier_end: tuple[int, ...]
    recreated: tuple[int, ...]


@value
class ChangelogEndColumns:
    """A list of `ChangelogEnd`."""

    table: tuple[Run, ...]
    topic: tuple[Run, ...]
    partition: tuple[int, ...]
    end: tuple[int, ...]


@value
class LogEndColumns:
    """A list of `LogEnd`."""

    topic: tuple[Run, ...]
    partition: tuple[int, ...]
    end: tuple[int, ...]


@value
class ChannelRangeColumns:
    """A list of `ChannelRange`."""

    sender: tuple[int, ...]
    topic: tuple[Run, ...]
    partition: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]


class Beside(NamedTuple):
    """A number that is written as its difference to another one of the same item. 0 stands for `unknown`, which says
    that there is none."""

    field: str
    unknown: int


class Form(NamedTuple):
    """The form in which a list of one type is written: by which columns, and which numbers lie beside another one."""

    columns: type
    beside: dict[str, Beside]


FORMS: Final[dict[type, Form]] = {
    SentEnd: Form(
        SentEndColumns,
        {
            "marker": Beside("white_end", -1),
            "landed_end": Beside("white_end", 0),
            "earlier_seq": Beside("last_seq", -1),
            "earlier_end": Beside("white_end", 0),
        },
    ),
    ChangelogEnd: Form(ChangelogEndColumns, {}),
    LogEnd: Form(LogEndColumns, {}),
    ChannelRange: Form(ChannelRangeColumns, {}),
}
_TEXTS: Final = frozenset({"topic", "table"})
_FIELDS: Final[dict[type, list[str]]] = {
    kind: [field.name for field in fields(kind)]
    for item, form in FORMS.items()
    for kind in (item, form.columns)
}


def packed(kind: type, items: Sequence[Any]) -> Any:
    """Return the columns of a list of this type."""
    form = FORMS[kind]
    found: dict[str, Any] = {}
    for name in _FIELDS[form.columns]:
        values = [getattr(item, name) for item in items]
        if name in _TEXTS:
            found[name] = tuple(Run(text=text, items=len([*run])) for text, run in groupby(values))
        elif name == "unacknowledged":
            found[name] = tuple(Unacknowledged(item=at, seqs=seqs) for at, seqs in enumerate(values) if seqs)
        elif beside := form.beside.get(name):
            base = [getattr(item, beside.field) for item in items]
            found[name] = _shortened(map(_coder(beside.unknown), values, base))
        else:
            found[name] = _shortened(now - before for now, before in zip(values, [0, *values], strict=False))
    return form.columns(**found)


def unpacked(kind: type, columns: Any) -> tuple[Any, ...]:
    """Return the list that these columns hold.

    Raises:
        ValueError, IndexError: they do not fit together.
    """
    form = FORMS[kind]
    size = sum(run.items for run in columns.topic)
    if size > ITEMS_MAX or any(run.items <= 0 for run in columns.topic):
        raise ValueError(f"a list of {size} items")
    found: dict[str, Sequence[Any]] = {}
    for name in sorted(_FIELDS[form.columns], key=form.beside.__contains__):
        column = getattr(columns, name)
        if name in _TEXTS:
            if sum(run.items for run in column) != size:
                raise ValueError(f"{name}s of {sum(run.items for run in column)} items for {size}")
            found[name] = [run.text for run in column for _ in range(run.items)]
        elif name == "unacknowledged":
            seqs: dict[int, Any] = {part.item: part.seqs for part in column}
            if not seqs.keys() <= {*range(size)}:
                raise ValueError("seqs of an item that is not in the list")
            found[name] = [seqs.get(at, ()) for at in range(size)]
        elif beside := form.beside.get(name):
            decode = _decoder(beside.unknown)
            found[name] = [*map(decode, _lengthened(column, size), found[beside.field])]
        else:
            found[name] = [*_summed(_lengthened(column, size))]
    if "recreated" in found:
        found["recreated"] = [(False, True)[flag] for flag in found["recreated"]]
    names = _FIELDS[kind]
    return tuple(
        kind(**dict(zip(names, row, strict=True)))
        for row in zip(*(found[name] for name in names), strict=True)
    )


def _shortened(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return a column as it is written: equal numbers once."""
    column = (*numbers,)
    return column[:1] if column.count(column[0] if column else 0) == len(column) else column


def _lengthened(column: Sequence[int], size: int) -> Sequence[int]:
    if len(column) == 1 and size:
        return [*column] * size
    if len(column) != size:
        raise ValueError(f"a column of {len(column)} numbers for {size} items")
    return column


def _summed(differences: Iterable[int]) -> Iterator[int]:
    total = 0
    for difference in differences:
        total += difference
        yield total


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
