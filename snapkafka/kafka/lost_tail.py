"""Has the ledger lost records that were read? (R11)

A log that has lost its tail assigns the same offsets once more. So the loss shows in an end below what was read, or in
another record at an offset that was read. Whoever reads the ledger remembers a mark of each record, and compares when
the partition has got another leader epoch: without a new one no log loses anything.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable
from typing import Final

from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Entry

__all__ = ["NO_RECORD", "LedgerCutShortError", "Marks", "first_lost", "mark_of"]

#: Marks of so many records are remembered, 8 bytes each.
MARKS_MAX: Final = 1_000_000
#: Stands for an offset of which nothing is known, and for one that holds no record.
UNKNOWN: Final = 0
NO_RECORD: Final = 1


class LedgerCutShortError(LedgerUnusableError):
    """The ledger has lost records that were read: those from `since` on, of all below `upto`."""

    def __init__(self, topic: str, since: int, upto: int) -> None:
        super().__init__(
            f"ledger {topic} has lost acknowledged records: it was read up to offset {upto}, and nothing that was read"
            f" is left from offset {since} on",
            hint="services join again by themselves; ask again, and look why the broker lost them",
        )
        self.since, self.upto = since, upto


def mark_of(entry: Entry) -> int:
    """Return the mark of what stands at an offset: a record is identified by its author and its number."""
    record = entry.record if entry.states is None else entry.states
    return NO_RECORD if record is None else hash((record.process, record.n))


class Marks:
    """The marks of the records that were read, without a gap: those from offset `first` on, below `end`."""

    def __init__(self, most: int = MARKS_MAX) -> None:
        self._marks = array("q")
        self._most = most
        self.first = 0

    @property
    def end(self) -> int:
        """One past the last offset."""
        return self.first + len(self._marks)

    def add(self, offset: int, mark: int) -> None:
        """Remember the mark of the next record; one that was read before stays as it is."""
        if not self._marks:
            self.first = offset
        if offset < self.end:
            return
        self._marks.extend([UNKNOWN] * (offset - self.end))
        self._marks.append(mark)
        if len(self._marks) > self._most:
            dropped = len(self._marks) // 2
            del self._marks[:dropped]
            self.first += dropped

    def agrees(self, offset: int, mark: int) -> bool:
        """Is this the record that was read there?"""
        return self._marks[offset - self.first] in (mark, UNKNOWN)


async def first_lost(marks: Marks, start: int, end: int, at: Callable[[int], Awaitable[int]]) -> int | None:
    """Return the first offset at which something else stands than was read, or nothing; None if there is none.

    All that was appended after the loss differs, so the offset is found by bisection.

    Args:
        start, end: of the log now.
        at: asks for the mark of what stands at an offset now.
    """
    low, high = max(start, marks.first), min(end, marks.end) - 1
    if high < low:
        return start if end < marks.end else None  # of what is left no mark is remembered
    if marks.agrees(high, await at(high)):
        return high + 1 if high + 1 < marks.end else None
    while low < high:
        middle = (low + high) // 2
        if marks.agrees(middle, await at(middle)):
            low = middle + 1
        else:
            high = middle
    return low
