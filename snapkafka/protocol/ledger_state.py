"""The fold of the ledger that decides when a snapshot is captured, the same for every reader (R11).

`LedgerState.apply(offset, record)` is all there is: no clock, no coordinator. All readers that have read the ledger up
to the same offset hold the same state, so none has to be asked, and none has to be alive for a snapshot to complete.

    Trigger ──> capturing ──every required process reported, every expected input cut──> captured ──Verdict──> completed
                    └──Abort, a required process lost, an input assigned─────────────> failed

What each record changes stands in `ledger_fold`; here is what concerns all of them: their order, and a checkpoint,
which is the part of the ledger that still matters, so that older records may go.

Nothing is translated: the records themselves are kept, each with its offset, and a reader that starts from them folds
them like any others. A record matters as long as it can still change an answer: the processes that run or left
recently, the owners of inputs, the snapshots that are open or may still be assembled, retired apps, a pause. Dropped
epochs lie below `highest_epoch`, so a reader that starts from a checkpoint never takes one of them for new. Their names
stay taken.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, assert_never

from .ledger_fold import KEEP_DECIDED, KEEP_LEFT, Fold
from .records import (
    NOBODY,
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Dead,
    Fork,
    Hello,
    Kept,
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


def take_checkpoint(
    ledger: Iterable[tuple[int, LedgerRecord | None]],
    *,
    first_n: int,
    start: int = 0,
    chunk: int = 50,
    snapshots: int = KEEP_DECIDED,
    times_ms: Mapping[int, int] | None = None,
    fits: Callable[[Checkpoint], bool] = lambda chunk: True,
) -> list[Checkpoint]:
    """Return the checkpoint of a ledger, to be appended to it in this order; empty if the beginning of the ledger is
    missing and no checkpoint in it stands for that: what matters of it is then unknown.

    Args:
        ledger: every record with its offset, as read.
        first_n: number of the first chunk; the others follow.
        start: where the ledger began, as for `LedgerState`; there may be a checkpoint in it already.
        chunk: records per chunk, at most.
        snapshots: how many of the latest captured snapshots are kept, next to those that are open.
        times_ms: when the broker appended what stands at an offset, for tools that report it.
        fits: returns whether a chunk is small enough for the ledger; one that is not is split.
    """
    state = _Remembering(start=start)
    for at, record in ledger:
        state.apply(at, record)
    if not state.whole:
        return []
    matter = _Matter(state, snapshots)
    kept = [
        Kept(offset=at, record=record, at_ms=(times_ms or {}).get(at, 0))
        for at, record in state.took
        if matter.still(at, record)
    ]
    while True:
        chunks = _chunks(state, kept, first_n, chunk)
        if chunk == 1 or all(map(fits, chunks)):
            return chunks
        chunk = max(1, chunk // 4)


def _chunks(state: LedgerState, kept: Sequence[Kept], first_n: int, chunk: int) -> list[Checkpoint]:
    names, parts = state.taken(), max(1, -(-len(kept) // chunk))
    share = -(-len(names) // parts)
    return [
        Checkpoint(
            n=first_n + part,
            upto=state.end,
            highest_epoch=state.highest_epoch,
            left_at=state.left_at,
            part=part,
            parts=parts,
            kept=tuple(kept[part * chunk : (part + 1) * chunk]),
            names=tuple(names[part * share : (part + 1) * share]),
        )
        for part in range(parts)
    ]


class _Remembering(LedgerState):
    """A fold that remembers the records that it took in: no garbage, no duplicates, and those that an earlier
    checkpoint kept."""

    def __init__(self, *, start: int) -> None:
        super().__init__(start=start)
        self.took: list[tuple[int, LedgerRecord]] = []

    def _take(self, offset: int, record: LedgerRecord) -> None:
        self.took.append((offset, record))
        super()._take(offset, record)


class _Matter:
    """The decision which records still matter."""

    def __init__(self, state: _Remembering, snapshots: int) -> None:
        captured = [epoch for epoch, view in state.snapshots.items() if view.captured_at is not None]
        self.epochs = {*state.open, *captured[max(0, len(captured) - snapshots) :]}
        self.processes = _processes(state, self.epochs)
        #: Of who read what before the first snapshot that is kept, only the latest words matter.
        self.since, before = min(self.epochs, default=state.end + 1) - 1, LedgerState()
        for at, record in state.took:
            if at < self.since:
                before.apply(at, record)
        readers = [readers[-1].offset for fold in (before, state) for readers in fold.readers.values()]
        self.assigned = {*readers, *(view.assigned for fold in (before, state) for view in fold.living())}

    def still(self, at: int, record: LedgerRecord) -> bool:
        match record:
            case Hello():
                return at in self.processes
            case Assigned():
                return at >= self.since or at in self.assigned
            case Bye():
                return record.process in self.processes
            case Dead():
                return record.dead in self.processes
            case Report():
                return any(record.previous < epoch <= record.epoch for epoch in self.epochs)
            case Trigger():
                return at + 1 in self.epochs
            case Abort() | Verdict():
                return record.epoch in self.epochs
            case Checkpoint():
                return False
            case _:
                return True  # operators ask for few things


def _processes(state: LedgerState, epochs: Iterable[int]) -> set[int]:
    """Return the processes to keep: those that run or left recently, and those with a part in a kept snapshot."""
    left: Sequence[int] = [view.process for view in state.processes.values() if view.left is not None]
    owners = {readers[-1].process for readers in state.readers.values()}
    found = {
        *(view.process for view in state.living()),
        *left[max(0, len(left) - KEEP_LEFT) :],
        *state.last_of_stopped(),
        *(view.process for view in state.processes.values() if view.goes_on),
        *(process for process in owners if process in state.processes),
    }
    for view in (state.snapshots[epoch] for epoch in epochs):
        found |= view.required | view.beside | {part.process for part in view.parts()}
        if view.contaminated:
            came_back = {p for p, v in state.processes.items() if v.hello.was in view.left}
            found |= came_back | {state.processes[p].hello.was for p in came_back}
    return found - {NOBODY}
