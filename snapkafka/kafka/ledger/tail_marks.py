"""Marks of the records that were read: they show whether the ledger has lost some of them (R11).

A log that has lost its tail assigns the same offsets once more. So the loss shows in an end below what was read, or in
another record at an offset that was read. Each reader remembers a mark of every record, and compares when the partition
has another leader epoch: without a new one no log loses anything.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable
from typing import Final

from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Entry
from snapkafka.protocol.records import LedgerRecord

#: Marks of so many records are remembered, 8 bytes each.
MARKS_MAX: Final = 1_000_000
#: Stands for an offset of which nothing is known, and for one that holds no record.
UNKNOWN: Final = 0
NO_RECORD: Final = 1


class LedgerCutShortError(LedgerUnusableError):
    """The ledger has lost records that were read: those from `since` on, of all below `upto`."""

    def __init__(self, topic: str, since: int, upto: int) -> None:
        super().__init__(
            f"ledger {topic} has lost acknowledged records: offsets {since} to {upto - 1} had been read",
            hint="services join again by themselves; try again, and find out why the broker lost them",
        )
        self.since, self.upto = since, upto


def mark_of(entry: Entry) -> int:
    """Return the mark of what stands at an offset."""
    return NO_RECORD if entry.record is None else identity(entry.record)


def identity(record: LedgerRecord) -> int:
    """Return the mark of a record: it is identified by its author and its number."""
    return hash((record.process, record.n))


class Marks:
    """The marks of the records that were read, without a gap: those from offset `first` on, below `end`.

    `settled`: what lies below was read so long ago that whoever knew of no other leader then read it from the same log.
    """

    def __init__(self) -> None:
        self._marks = array("q")
        self._settling = 0
        self.first = self.settled = 0

    @property
    def end(self) -> int:
        """One past the last offset that was read."""
        return self.first + len(self._marks)

    def add(self, offset: int, mark: int) -> None:
        """Remember the mark of the next record that was read."""
        if not self._marks:
            self.first = offset
        if offset < self.end:
            return
        self._marks.extend([UNKNOWN] * (offset - self.end))
        self._marks.append(mark)
        if len(self._marks) > MARKS_MAX:
            dropped = len(self._marks) // 2
            del self._marks[:dropped]
            self.first += dropped

    def settle(self) -> None:
        """Note that the partition has no other leader than when this was called last."""
        self.settled, self._settling = self._settling, self.end

    def agrees(self, offset: int, mark: int) -> bool:
        """Return whether this is the record that was read there; it is, as far as is remembered."""
        return offset < self.first or self._marks[offset - self.first] in (mark, UNKNOWN)


async def lost_range(
    marks: Marks,
    start: Callable[[], Awaitable[int]],
    end: Callable[[], Awaitable[int]],
    standing: Callable[[int, int], Awaitable[dict[int, int]]],
) -> tuple[int, int] | None:
    """Return the first offset, and one past the last, at which something else stands than was read, or nothing.

    All that was appended after a loss differs from what was read before it: the settled part is compared if its last
    record differs. A reader that has not noticed reads on where the log has grown again, and that agrees.

    Args:
        start, end: ask for those of the log now.
        standing: asks for the marks of what stands in a range now, by offset.
    """

    async def differing(first: int, upto: int) -> list[int]:
        found = await standing(first, upto) if first < upto else {}
        return [n for n in range(first, upto) if not marks.agrees(n, found.get(n, NO_RECORD))]

    seen = marks.end  # before the log is asked: what is read meanwhile has been appended since
    begin, upto = await start(), await end()
    low, high = max(begin, marks.first), min(upto, seen)
    settled = max(low, min(marks.settled, high))
    first = low if low < settled and await differing(settled - 1, settled) else settled
    lost = await differing(first, high)
    if upto < seen:
        lost += [high if low <= high else begin, seen - 1]  # of what is left no mark may be remembered
    return (min(lost), max(lost) + 1) if lost else None
