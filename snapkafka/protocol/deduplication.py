"""Deduplication: every ledger record carries (process, n), and every reader drops duplicates of the pair (R11).

An author's numbers rise, and its records overtake each other only a little; so all numbers of a living author up to
some point are remembered as one, and of all other authors the latest few thousand. Memory is bounded whatever the
ledger holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from .records import Number, Seen

_T = TypeVar("_T")

#: Repeats of records whose author is no living process are recognised among so many.
KEEP_NUMBERS: Final = 500
#: An author's records may overtake each other by so many.
KEEP_ABOVE: Final = 256


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


class Repeats:
    """The records that were seen already."""

    def __init__(self, living: Iterable[Seen] = (), others: Iterable[Number] = ()) -> None:
        self._living = {seen.process: _Numbers(seen) for seen in living}
        self._others = Latest(KEEP_NUMBERS, ((other.process, other.n) for other in others))

    def repeated(self, process: int, n: int, *, is_alive: bool) -> bool:
        """Note record `n` of `process`; return whether it was seen before."""
        if is_alive:
            return self._living.setdefault(process, _Numbers()).repeats(n)
        if (process, n) in self._others:
            return True
        self._others.add((process, n))
        return False

    def left(self, process: int) -> None:
        """Drop the numbers of a process that has left: it will write nothing more."""
        self._living.pop(process, None)

    def kept(self) -> tuple[list[Seen], list[Number]]:
        """Return the numbers that a checkpoint has to hold."""
        living = [
            Seen(process=process, low=numbers.low, above=tuple(sorted(numbers.above)))
            for process, numbers in self._living.items()
        ]
        return living, [Number(process=process, n=n) for process, n in self._others]


class _Numbers:
    """The numbers of one author that were seen: all up to `low`, and some above."""

    __slots__ = ("above", "low")

    def __init__(self, seen: Seen | None = None) -> None:
        self.low = 0 if seen is None else seen.low
        self.above: set[int] = set() if seen is None else {*seen.above}

    def repeats(self, n: int) -> bool:
        if n <= self.low or n in self.above:
            return True
        self.above.add(n)
        if len(self.above) > KEEP_ABOVE:
            self.low = min(self.above) - 1  # what is missing there was never written
        while self.low + 1 in self.above:
            self.low += 1
            self.above.remove(self.low)
        return False
