"""The classes of tables that report what Faust's sensors do not see: reads of a whole table, of a key that may be
absent, and of a table of sets.

A table is given such a class when it is attached, so it has the layout of the original one: each derives from that
alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

from .views import Items, Keys, Values


@cache
def reporting(cls: Hashable, *, of_sets: bool) -> Any:
    """Return a subclass of a class of tables that reports reads, with its name."""
    original: Any = cls
    derived = _reporting_views(_reporting_reads(original))
    if of_sets:
        derived = _reporting_lookups(derived)
    for name in ("__name__", "__qualname__", "__module__"):
        setattr(derived, name, getattr(original, name))
    return derived


def _reporting_reads(original: Any) -> Any:
    class ReportingReads(original):
        def __contains__(self, key: Any) -> bool:
            try:
                self.reads.touched(self, key, write=False)
            except Exception as error:
                self.reads.stand_down(error)
            return bool(super().__contains__(key))

        def __iter__(self) -> Any:
            iterator = super().__iter__()
            try:
                return self.reads.iterating(self, iterator, of_values=False)
            except Exception as error:
                self.reads.stand_down(error)
            return iterator

        def __len__(self) -> int:
            try:
                self.reads.read_whole(self)
            except Exception as error:
                self.reads.stand_down(error)
            return int(super().__len__())

        def clone(self, **options: Any) -> Any:
            return original(**{**self.info(), **options})  # nobody has attached that one

        def copy(self) -> Any:
            try:
                self.reads.copied(self)
            except Exception as error:
                self.reads.stand_down(error)
            return super().copy()

    return ReportingReads


def _reporting_views(original: Any) -> Any:
    class ReportingViews(original):
        def keys(self) -> Any:
            view = super().keys()
            try:
                return Keys(view, self)
            except Exception as error:
                self.reads.stand_down(error)
            return view

        def values(self) -> Any:
            view = super().values()
            try:
                return Values(view, self)
            except Exception as error:
                self.reads.stand_down(error)
            return view

        def items(self) -> Any:
            view = super().items()
            try:
                return Items(view, self)
            except Exception as error:
                self.reads.stand_down(error)
            return view

    return ReportingViews


def _reporting_lookups(original: Any) -> Any:
    class ReportingLookups(original):
        def __getitem__(self, key: Any) -> Any:
            try:
                self.reads.note_lookup(self, key)
            except Exception as error:
                self.reads.stand_down(error)
            return super().__getitem__(key)

    return ReportingLookups
