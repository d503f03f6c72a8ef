"""The classes of tables that report what Faust's sensors do not see: reads of a whole table, of a key that may be
absent, and of a table of sets.

A table is given such a class when it is attached, so it has the layout of the original one: it derives from that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from .views import Items, Keys, Values


@cache
def reporting(cls: Hashable, *, of_sets: bool) -> Any:
    """Return a subclass of a class of tables that reports reads, with its name."""
    original: Any = cls

    def clone(self: Any, **options: Any) -> Any:
        return original(**{**self.info(), **options})  # nobody has attached that one

    members: dict[str, Any] = {
        "clone": clone,
        "__contains__": _noting(original, "__contains__", _looks_for),
        "__iter__": _noting(original, "__iter__", _goes_over),
        "__len__": _noting(original, "__len__", _goes_over),
        "copy": _noting(original, "copy", _copies),
        "keys": _viewed(original, "keys", Keys),
        "values": _viewed(original, "values", Values),
        "items": _viewed(original, "items", Items),
    }
    if of_sets:
        members["__getitem__"] = _noting(original, "__getitem__", _looks_up)
    same = {name: getattr(original, name) for name in ("__qualname__", "__module__")}
    return type(original)(original.__name__, (original,), members | same)


def _looks_for(table: Any, key: Any) -> None:
    table.reads.touched(table, key, write=False)


def _looks_up(table: Any, key: Any) -> None:
    table.reads.note_lookup(table, key)


def _goes_over(table: Any) -> None:
    table.reads.hold_whole(table, values=False)


def _copies(table: Any) -> None:
    table.reads.hold_whole(table, values=True)


def _noting(original: Any, name: str, note: Callable[..., None]) -> Callable[..., Any]:
    """Return a method that notes its use, and does what it did."""
    does = getattr(original, name)

    def noted(self: Any, *args: Any) -> Any:
        try:
            note(self, *args)
        except Exception as error:
            self.reads.stand_down(error)
        return does(self, *args)

    return noted


def _viewed(original: Any, name: str, kind: Any) -> Callable[..., Any]:
    """Return a method that returns a view that reports its use."""
    make = getattr(original, name)

    def viewed(self: Any) -> Any:
        view = make(self)
        try:
            return kind(view, self)
        except Exception as error:
            self.reads.stand_down(error)
        return view

    return viewed
