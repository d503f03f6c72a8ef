"""The classes of tables that report what Faust's sensors do not see: reads of a whole table, of a key that may be
absent, and of a table of sets; records that come in by the changelog; what a store holds; and keys that come and go
with the partitions of a rebalance.

A table is given such a class when it is attached, so it has the layout of the original one: it derives from that alone.
A view may be kept as long as its owner likes, and reads the table whenever it is used: so whoever uses one holds the
table (R6). After a fault of ours they are plain views (R15).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, ItemsView, KeysView, Mapping, ValuesView
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

#: By these a table changes as a whole, without a record.
CHANGES: Final = ("on_rebalance", "on_recovery_completed")

Uses = Mapping[str, Callable[..., Any]]


@cache
def reporting(cls: Hashable, *, of_sets: bool) -> Any:
    """Return a subclass of a class of tables that reports reads, with its name."""
    original: Any = cls

    def clone(self: Any, **options: Any) -> Any:
        return original(**{**self.info(), **options})  # nobody has attached that one

    def noting(name: str, note: Callable[..., None]) -> Callable[..., Any]:
        does = getattr(original, name)

        def noted(self: Any, *args: Any) -> Any:
            self.reads.note(note, self, *args)
            return does(self, *args)

        return noted

    def viewed(name: str, kind: Any) -> Callable[..., Any]:
        make = getattr(original, name)

        def view(self: Any) -> Any:
            found = make(self)
            noting_one = self.reads.note(kind, found, self)
            return found if noting_one is None else noting_one

        return view

    async def on_changelog_event(self: Any, event: Any) -> None:
        if self.reads.note(self.changelogs.comes_in, self, event) is not False:
            await original.on_changelog_event(self, event)

    def apply_changelog_batch(self: Any, batch: Any) -> Any:
        batch = list(batch)
        applied = self.reads.note(self.changelogs.to_apply, self, batch)
        return original.apply_changelog_batch(self, batch if applied is None else applied)

    def persisted_offset(self: Any, tp: Any) -> Any:
        ask = partial(original.persisted_offset, self)
        self.restored.renew_store(self, tp, ask)
        offset = ask(tp)
        self.reads.note(self.changelogs.store_asked, tp, offset)
        return offset

    def changing(name: str) -> Callable[..., Any]:
        change = getattr(original, name)

        async def changed(self: Any, *args: Any, **options: Any) -> None:
            try:
                await change(self, *args, **options)
            finally:  # also if it fails half-way
                self.reads.rewritten(self)

        return changed

    comes_in: tuple[Any, ...] = (on_changelog_event, apply_changelog_batch, persisted_offset)
    members: dict[str, Any] = {function.__name__: function for function in comes_in}
    members |= {name: changing(name) for name in CHANGES}
    members |= {"clone": clone, "__contains__": noting("__contains__", _looks_for)}
    members |= {name: noting(name, _goes_over) for name in ("__iter__", "__len__")}
    members |= {"copy": noting("copy", _copies)}
    members |= {name: viewed(name, kind) for name, kind in VIEWS.items()}
    if of_sets:
        members["__getitem__"] = noting("__getitem__", _looks_up)
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


#: What a view does with the whole table. Whether a key is in it is a look-up by that key.
KEY_USES: Final[Uses] = {"__iter__": iter, "__reversed__": reversed, "__len__": len, "__repr__": repr}
USES: Final[Uses] = {**KEY_USES, "__contains__": operator.contains}


def _view_of(kind: Any, uses: Uses, *, values: bool) -> Any:
    """Return a class of views that report their use.

    Args:
        kind: of views, with all that follows from these uses.
        values: they hand out objects of the table.
    """

    def __init__(self: Any, view: Any, table: Any) -> None:  # noqa: N807
        self._view, self._mapping = view, table

    def reporting(use: Callable[..., Any]) -> Callable[..., Any]:
        def used(self: Any, *args: Any) -> Any:
            table = self._mapping
            table.reads.note(_copies if values else _goes_over, table)
            return use(self._view, *args)

        return used

    mapping = property(lambda self: MappingProxyType(self._mapping), doc="The table, read-only.")
    members = {name: reporting(use) for name, use in uses.items()}
    return type(kind.__name__, (kind,), {**members, "__init__": __init__, "mapping": mapping})


VIEWS: Final = {
    "keys": _view_of(KeysView, KEY_USES, values=False),
    "values": _view_of(ValuesView, USES, values=True),
    "items": _view_of(ItemsView, USES, values=True),
}
