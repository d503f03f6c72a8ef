"""Marks of the records that were read: they show whether the ledger has lost some of them (R11).

A log that has lost its tail assigns the same offsets once more. So the loss shows in an end below what was read, or in
another record at an offset that was read. Each reader remembers marks of the latest records, and compares when the
partition has another leader epoch: without a new one no log loses anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Entry

#: Marks of so many records are remembered: more than are read before a new leader epoch is noticed.
MARKS_MAX: Final = 5_000
#: Stands for an offset that holds no record.
NO_RECORD: Final = 1


class LedgerCutShortError(LedgerUnusableError):
    """The ledger has lost records that were read: from `since` on."""

    def __init__(self, topic: str, since: int) -> None:
        super().__init__(
            f"ledger {topic} has lost acknowledged records that had been read, from offset {since} on",
            hint="delete the topic and restart the services, which start a new one (docs/reference/ledger.md)",
        )
        self.since = since


def mark_of(entry: Entry) -> int:
    """Return the mark of what stands at an offset: a record is identified by its author and its number."""
    return NO_RECORD if entry.record is None else hash((entry.record.process, entry.record.n))


class Marks(dict[int, int]):
    """The marks of the latest records that were read, by offset, all below `end`."""

    end = 0

    def add(self, offset: int, mark: int) -> None:
        """Remember the mark of a record that was read; what is read again changes nothing."""
        if offset >= self.end:
            self[offset], self.end = mark, offset + 1
            if len(self) > MARKS_MAX:
                del self[next(iter(self))]


async def lost_since(
    marks: Marks,
    start: Callable[[], Awaitable[int]],
    end: Callable[[], Awaitable[int]],
    standing: Callable[[int, int], Awaitable[dict[int, int]]],
) -> int | None:
    """Return the first offset at which something else stands than was read, or nothing; None: there is none.

    0 where all that is remembered is lost: so may be what was read before.

    Args:
        start, end: ask for those of the log now.
        standing: asks for the marks of what stands in a range now, by offset.
    """
    known = marks.copy()  # before the log is asked: what is read meanwhile has been appended since
    first, seen = min(known, default=0), max(known, default=-1) + 1
    begin, upto = await start(), await end()
    low, high = max(begin, first), min(upto, seen)
    found = await standing(low, high) if low < high else {}
    differing = (n for n in range(low, high) if known.get(n) not in (None, found.get(n, NO_RECORD)))
    since = next(differing, high if upto < seen else None)
    return since if since is None or since > first else 0
