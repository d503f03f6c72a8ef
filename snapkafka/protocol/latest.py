"""The latest keys that came, up to a maximum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Latest(Generic[_T]):
    """The latest keys that came, in their order, up to a maximum.

    It is a dict whose first key is deleted for each new one. Such a dict alone would grow to a table for three times
    as many keys, and each deletion would walk over all deletions before: so it is recreated after every quarter of its
    keys.
    """

    __slots__ = ("_came", "_keys", "_size")

    def __init__(self, size: float, keys: Iterable[_T] = ()) -> None:
        self._size = size
        self._keys = dict.fromkeys(keys)
        self._came = 0

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[_T]:
        return iter(self._keys)

    def add(self, key: _T) -> None:
        """Add a new key, and drop the oldest one if there are too many."""
        self._keys[key] = None
        while len(self._keys) > self._size:
            del self._keys[next(iter(self._keys))]
        self._came += 1
        if 4 * self._came >= self._size:
            self._keys = dict.fromkeys(self._keys)
            self._came = 0
