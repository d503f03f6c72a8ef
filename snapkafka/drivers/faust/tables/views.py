"""Table views of which each use is a read of the table: `keys()`, `values()` and `items()` of Faust's tables.

A view may be kept as long as its owner likes, and reads the table whenever it is used. So these replace the views of
the store, and whoever uses one holds the table (R6). After a fault of ours they are plain views (R15).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from types import MappingProxyType
from typing import Any, Final

Uses = Mapping[str, Callable[..., Any]]

#: What a view does with the whole table. Whether a key is in it is a look-up by that key.
KEY_USES: Final[Uses] = {"__iter__": iter, "__reversed__": reversed, "__len__": len, "__repr__": repr}
USES: Final[Uses] = {**KEY_USES, "__contains__": operator.contains}


def _reporting(kind: Any, uses: Uses, *, values: bool) -> Any:
    """Return a class of views that report their use.

    Args:
        kind: of views, with all that follows from these uses.
        values: they hand out objects of the table.
    """

    def __init__(self: Any, view: Any, table: Any) -> None:  # noqa: N807
        self._view, self._mapping = view, table

    def reporting(use: Callable[..., Any]) -> Callable[..., Any]:
        def used(self: Any, *args: Any) -> Any:
            try:
                self._mapping.reads.hold_whole(self._mapping, values=values)
            except Exception as error:
                self._mapping.reads.stand_down(error)
            return use(self._view, *args)

        return used

    mapping = property(lambda self: MappingProxyType(self._mapping), doc="The table, read-only.")
    members = {name: reporting(use) for name, use in uses.items()}
    return type(kind.__name__, (kind,), {**members, "__init__": __init__, "mapping": mapping})


Keys: Final = _reporting(KeysView, KEY_USES, values=False)
Values: Final = _reporting(ValuesView, USES, values=True)
Items: Final = _reporting(ItemsView, USES, values=True)
