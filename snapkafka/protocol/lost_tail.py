"""Tails of the ledger that were acknowledged, read, and lost (R11).

Epochs and process ids are offsets of the ledger. A ledger that has lost its tail assigns the offsets of that tail once
more, and headers and reports that name them already exist. A process that has read, or written, a record that is lost
therefore appends a `TailLost`: it names the first offset that differs and the end that was read. Three rules follow:

* *A number below that end is never used again.* A `Hello` in a lost range makes no process and a `Trigger` there no
  snapshot, and the author appends its record again until the ledger has passed the range.
* *A process whose number lies in the range is hidden:* this ledger does not know it, yet it ran and sent. A snapshot
  that was captured from the first lost offset up to the `TailLost` of such a process cannot be proven; one that is open
  fails.
* *A process that has noticed a loss is a new process,* as after its `Dead`.
"""

from __future__ import annotations

from .records import NOBODY, TailLost


class LostTails:
    """The ranges of offsets that the ledger has lost, as far as somebody noticed."""

    def __init__(self) -> None:
        self._records: list[tuple[int, TailLost]] = []

    def add(self, offset: int, record: TailLost) -> bool:
        """Add the range that the record at `offset` names; return whether it is a new one."""
        known = any((seen.process, seen.n) == (record.process, record.n) for _, seen in self._records)
        if not known:
            self._records.append((offset, record))
        return not known

    @property
    def upto(self) -> int:
        """The offset from which on numbers are new."""
        return max((record.upto for _, record in self._records), default=0)

    def __str__(self) -> str:
        """State what is lost, for people; empty where nothing is."""
        ranges = sorted(
            {(record.since, record.upto) for _, record in self._records if record.process == NOBODY}
        )
        lost = ", ".join(f"{since} to {upto - 1}" for since, upto in ranges)
        return f"the ledger has lost acknowledged records, at offsets {lost}" if lost else ""

    def hides(self, number: int) -> bool:
        """Return whether a lost record had this offset, so that no process and no trigger may have it now."""
        return any(record.since <= number < record.upto for _, record in self._records)

    def named_from(self, offset: int) -> list[TailLost]:
        """Return the records of losses that stand at `offset` or behind it."""
        return [record for at, record in self._records if at >= offset]
