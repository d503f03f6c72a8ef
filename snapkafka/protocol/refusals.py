"""Processes whose `Hello` the ledger refuses for its signature: they run, and take no part (R11).

With two keys in one namespace, a process may accept only its own records, or accept all and be accepted by none.
Refused records reveal both: a process that refuses a `Hello` informs its author, once, in a record that the author may
accept; and a process that is alone and refuses reports of snapshots knows it by itself.
"""

from __future__ import annotations

from typing import Final

from .records import Bye, Dead, Hello, LedgerRecord

#: So many refused processes are remembered, the latest ones: anybody who may write to the ledger can add more.
KEEP_REFUSED: Final = 64


class Refusals:
    """Refused `Hello`s, by their offsets, and the refused processes that have left or been informed."""

    def __init__(self) -> None:
        self.hellos: dict[int, Hello] = {}
        self.left: dict[int, int] = {}  # process -> ledger offset of the record that states it
        self.informed: set[int] = set()

    def refuse(self, offset: int, record: LedgerRecord) -> None:
        """Take in a record whose signature is refused."""
        match record:
            case Hello():
                self.hellos[offset] = record
                if len(self.hellos) > KEEP_REFUSED:
                    oldest = next(iter(self.hellos))
                    del self.hellos[oldest]
                    self.left.pop(oldest, None)
                    self.informed.discard(oldest)
            case Bye(goes_on=False):
                self.ended(offset, record.process)
            case Dead():
                self.ended(offset, record.dead)
            case _:
                pass

    def ended(self, offset: int, process: int) -> None:
        """Note that a refused process has left."""
        if process in self.hellos:
            self.left.setdefault(process, offset)

    def uninformed(self) -> list[int]:
        """Return the refused processes that run, as far as is known, and have not been informed."""
        return [
            process for process in self.hellos if process not in self.left and process not in self.informed
        ]
