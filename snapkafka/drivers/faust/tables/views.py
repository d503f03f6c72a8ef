"""Table views that report each read: `keys()`, `values()` and `items()` of Faust's tables.

A view may be kept as long as its owner likes, and reads the table whenever it is used. So these replace the views of
the store and report what they read when they read it (R6); an iterator reads on until its end, and counts as held
until then (`reads`). After a fault of ours they are plain views (R15).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from types import MappingProxyType
from typing import Any


class _NotingView:
    """The common part of the three views.

    Args:
        view: of the store.
        table: whose `reads` are notified.
    """

    __slots__ = ()
    _mapping: Any
    _view: Any
    of_values = True

    def __init__(self, view: Any, table: Any) -> None:
        self._view, self._mapping = view, table

    def _iterating(self, iterator: Iterator[Any]) -> Iterator[Any]:
        found: Iterator[Any] = self._mapping.reads.iterating(self._mapping, iterator, self.of_values)
        return found

    def __len__(self) -> int:
        try:
            self._mapping.reads.read_whole(self._mapping)
        except Exception as error:
            self._mapping.reads.stand_down(error)
        return len(self._view)

    def __iter__(self) -> Iterator[Any]:
        iterator: Iterator[Any] = iter(self._view)
        try:
            return self._iterating(iterator)
        except Exception as error:
            self._mapping.reads.stand_down(error)
            return iterator

    def __reversed__(self) -> Iterator[Any]:
        iterator: Iterator[Any] = reversed(self._view)
        try:
            return self._iterating(iterator)
        except Exception as error:
            self._mapping.reads.stand_down(error)
            return iterator

    def __repr__(self) -> str:
        try:
            self._mapping.reads.read_whole(self._mapping)
        except Exception as error:
            self._mapping.reads.stand_down(error)
        return repr(self._view)

    @property
    def mapping(self) -> Any:
        """The table, read-only, as views of a dictionary have it."""
        return MappingProxyType(self._mapping)


class Keys(_NotingView, KeysView[Any]):
    """The view `table.keys()`."""

    __slots__ = ("_view",)
    of_values = False


class Values(_NotingView, ValuesView[Any]):
    """The view `table.values()`."""

    __slots__ = ("_view",)

    def __contains__(self, value: object) -> bool:
        try:
            self._mapping.reads.read_whole(self._mapping)
        except Exception as error:
            self._mapping.reads.stand_down(error)
        return value in self._view


class Items(_NotingView, ItemsView[Any, Any]):
    """The view `table.items()`."""

    __slots__ = ("_view",)

    def __contains__(self, item: object) -> bool:
        try:
            self._mapping.reads.read_whole(self._mapping)
        except Exception as error:
            self._mapping.reads.stand_down(error)
        return item in self._view
