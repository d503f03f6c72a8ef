"""Tails of the ledger that were acknowledged, read, and lost (R11).

Epochs and process ids are offsets of the ledger. A ledger that has lost its tail assigns the offsets of that tail once
more, and headers and reports that name them already exist. A process that has read, or written, a record that is lost
therefore appends a `TailLost`: it names the first offset that differs and the end that was read. Three rules follow:

* *A number below that end is never used again.* A `Hello` that stands in a lost range is no process, a `Trigger` there
  is no snapshot, and the author repeats its record until the ledger has passed the range.
* *A process whose number lies in the range is hidden:* this ledger does not know it, yet it ran and sent. What was
  captured from the first lost offset up to the `TailLost` of such a process cannot be proven, and what is open fails.
* *A process that has noticed a loss is a new process,* as after its `Dead`.
"""

from __future__ import annotations

from .records import TailLost

__all__ = ["LostTails"]


class LostTails:
    """The ranges of offsets that the ledger has lost, as far as somebody noticed."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []
        self.latest: TailLost | None = None

    def add(self, record: TailLost) -> None:
        """Add the range of a record."""
        self.latest = record
        if (record.since, record.upto) not in self._ranges:
            self._ranges.append((record.since, record.upto))

    @property
    def upto(self) -> int:
        """The offset from which on numbers are new."""
        return max((upto for _, upto in self._ranges), default=0)

    def hides(self, number: int) -> bool:
        """Was this offset that of a record which is lost, so that no process and no trigger may stand there now?"""
        return any(since <= number < upto for since, upto in self._ranges)
