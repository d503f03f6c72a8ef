"""Every ledger record carries (process, n), and repeats of the pair are dropped by every reader (R11).

An author's numbers rise, and its records overtake each other a little; so of a living author all numbers up to some
point are remembered as one, and of everybody else the latest few thousand. Memory is bounded whatever the ledger holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from .records import Number, Seen

__all__ = ["KEEP_NUMBERS", "Repeats", "bound"]

_T = TypeVar("_T")

#: Repeats of records whose author is no living process are recognised among so many.
KEEP_NUMBERS: Final = 1000
#: An author's records may overtake each other by so many.
KEEP_ABOVE: Final = 256


class Repeats:
    """Which records were seen already."""

    def __init__(self, living: Iterable[Seen] = (), others: Iterable[Number] = ()) -> None:
        self._living = {seen.process: _Numbers(seen) for seen in living}
        self._others: dict[tuple[int, int], None] = {(other.process, other.n): None for other in others}

    def repeated(self, process: int, n: int, *, lives: bool) -> bool:
        """Was record `n` of `process` seen before? From now on it was."""
        if lives:
            return self._living.setdefault(process, _Numbers()).repeats(n)
        if (process, n) in self._others:
            return True
        self._others[process, n] = None
        bound(self._others, KEEP_NUMBERS)
        return False

    def left(self, process: int) -> None:
        """It will write nothing more."""
        self._living.pop(process, None)

    def kept(self) -> tuple[list[Seen], list[Number]]:
        """What a checkpoint has to say of it."""
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


def bound(ordered: dict[_T, None], size: int) -> None:
    """Forget the oldest keys beyond `size`."""
    while len(ordered) > size:
        del ordered[next(iter(ordered))]
