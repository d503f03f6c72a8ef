"""The fold of the ledger that decides when a snapshot is captured, the same for every reader (R11).

`LedgerState.apply(offset, record)` is all there is: no clock, no coordinator. All readers that have read the ledger up
to the same offset hold the same state, so none has to be asked, and none has to be alive for a snapshot to complete.

    Trigger ──> capturing ──every required process reported, every expected input cut──> captured ──Verdict──> completed
                    └──Abort, a required process lost, an input assigned─────────────> failed

What each record changes stands in `ledger_fold`; here is what concerns all of them: their
order, and a ledger whose beginning is gone.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, assert_never

from .ledger_fold import Fold
from .records import (
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Dead,
    Fork,
    Hello,
    LedgerRecord,
    Pause,
    Report,
    Restore,
    Retire,
    SnapshotName,
    TailLost,
    Trigger,
    Verdict,
)
from .snapshots import Failure, Input, ProcessView, SnapshotView, Status, Unread, Waiting

if TYPE_CHECKING:
    from .captured_snapshot import Captured

__all__ = ["Failure", "Input", "LedgerState", "ProcessView", "SnapshotView", "Status", "Unread", "Waiting"]


class LedgerState(Fold):
    """The fold. Apply every record in the order of the ledger; one that comes twice changes nothing the second time.

    Args:
        history: remember every snapshot, for tools that list them. Without, memory is bounded, whatever the ledger
            holds.
        start: first offset of the ledger. If older records were removed, everything waits for a `Checkpoint`.
    """

    def __init__(self, *, history: bool = True, start: int = 0) -> None:
        super().__init__(history=history, start=start)
        #: What was read of a ledger whose beginning is gone, until its checkpoint is whole; None: nothing is missing.
        self._held: list[tuple[int, LedgerRecord | None]] | None = [] if start else None
        #: Applies a checkpoint, a record at each step; None: nothing of it is left.
        self._resuming: Iterator[None] | None = None

    # -- feeding ----------------------------------------------------------------------------------------------

    def apply(
        self,
        offset: int,
        record: LedgerRecord | None,
        *,
        at_once: int | None = None,
    ) -> None:
        """Apply the record at `offset`; `None` stands for garbage, which only moves the end.

        Offsets rise but need not be contiguous (a transaction of somebody, a trimmed log).

        Args:
            at_once: with the last chunk of a checkpoint, apply so many of its records; `resume` applies the others.
                None: all of them.
        """
        assert offset >= self.end, "the ledger is read in its order"
        self.resume()
        self.end = offset + 1
        if self._held is not None:
            self._held.append((offset, record))
            if isinstance(record, Checkpoint):
                self._begin_to_resume(self._held, record)
                self.resume(at_once)
        elif record is not None:
            self._take(offset, record)

    @property
    def resuming(self) -> bool:
        """Whether a complete checkpoint was read of which `resume` still has to apply some records."""
        return self._resuming is not None

    def resume(self, at_once: int | None = None) -> None:
        """Apply so many more records of a checkpoint; None: all that are left."""
        if self._resuming is not None:
            deque(islice(self._resuming, at_once), maxlen=0)

    def _take(self, offset: int, record: LedgerRecord) -> None:
        """Apply a record that is no garbage."""
        match record:
            case Hello():
                self._hello(offset, record)
            case Assigned():
                self._assigned(offset, record)
            case Dead():
                self._leave(offset, record.dead, dead=True)
            case Bye():
                self._bye(offset, record)
            case TailLost():
                self._tail_lost(offset, record)
            case Trigger():
                self._trigger(offset, record)
            case Report():
                self._report(offset, record)
            case Abort():
                self._abort(offset, record)
            case Verdict():
                self._verdict(record)
            case Retire():
                self._retire(offset, record.app)
            case Pause():
                self._pause(offset, paused=record.paused)
            case Restore():
                self._restore(offset, record)
            case Fork():
                self.fork = self.fork or record
            case Checkpoint():
                pass  # for those who start here
            case _:
                assert_never(record)

    @property
    def whole(self) -> bool:
        """Whether nothing is missing. False: the beginning of the ledger was deleted, and no checkpoint stands for it
        yet."""
        return self._held is None

    def _begin_to_resume(self, held: list[tuple[int, LedgerRecord | None]], last: Checkpoint) -> None:
        """Begin to apply a complete checkpoint: the records that it kept, then those read since it was taken."""
        chunks = {
            record.part: record
            for _, record in held
            if isinstance(record, Checkpoint)
            and (record.n - record.part, record.upto) == (last.n - last.part, last.upto)
        }
        if len(chunks) >= last.parts and last.upto >= self._start:
            self._resuming = self._resumed(held, [chunks[part] for part in sorted(chunks)])

    def _resumed(
        self, held: list[tuple[int, LedgerRecord | None]], chunks: Sequence[Checkpoint]
    ) -> Iterator[None]:
        """Apply one record of a checkpoint at each step; after the last one nothing is missing."""
        last = chunks[-1]
        for kept in (kept for chunk in chunks for kept in chunk.kept):
            yield
            self._take(kept.offset, kept.record)
        self._names = OrderedDict.fromkeys(
            (name.id, name.attempt) for chunk in chunks for name in chunk.names
        )
        self.highest_epoch = max(self.highest_epoch, last.highest_epoch)
        self.left_at = last.left_at  # it keeps only some of those that left
        for offset, record in held:
            if offset >= last.upto and record is not None:
                yield
                self._take(offset, record)
        self._held = self._resuming = None

    def taken(self) -> list[SnapshotName]:
        """Return the names that are taken, for a checkpoint."""
        return [SnapshotName(id=id_, attempt=attempt) for id_, attempt in self._names]

    # -- what was captured -----------------------------------------------------------------------------------------

    def captured(self, epoch: int) -> Captured:
        """Return the vector of offsets of a captured snapshot (see `gather`)."""
        from .gather import gather  # who only takes part never asks

        return gather(self, epoch)
