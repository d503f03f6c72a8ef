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

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard, assert_never

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
    """

    def __init__(self, *, history: bool = True) -> None:
        super().__init__(history=history)
        self._after: Checkpoint | None = None  # until what it kept is applied

    # -- feeding ----------------------------------------------------------------------------------------------

    def apply(self, offset: int, record: LedgerRecord | None) -> None:
        """Apply the record at `offset`; `None` stands for garbage, which only moves the end.

        Offsets rise but need not be contiguous (a transaction of somebody, a trimmed log). Where older records were
        removed, the checkpoint that stands for them comes first, then the records that it kept (see `from_checkpoint`).
        """
        assert offset >= self.end, "the ledger is read in its order"
        if begins(record, offset):
            assert self.end == 0, "another fold"
            self._after, self.start = record, record.upto
            return
        if self._after is not None and offset >= self.start:
            self._names = OrderedDict.fromkeys((name.id, name.attempt) for name in self._after.names)
            self.highest_epoch = max(self.highest_epoch, self._after.highest_epoch)
            self.left_at = self._after.left_at  # it keeps only some of those that left
            self._after = None
        self.end = offset + 1
        if record is not None:
            self._take(offset, record)

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
                pass  # for those who start with it
            case _:
                assert_never(record)

    def taken(self) -> list[SnapshotName]:
        """Return the names that are taken, for a checkpoint."""
        return [SnapshotName(id=id_, attempt=attempt) for id_, attempt in self._names]

    # -- what was captured -----------------------------------------------------------------------------------------

    def captured(self, epoch: int) -> Captured:
        """Return the vector of offsets of a captured snapshot (see `gather`)."""
        from .gather import gather  # who only takes part never asks

        return gather(self, epoch)


def begins(record: LedgerRecord | None, offset: int) -> TypeGuard[Checkpoint]:
    """Return whether a reader starts over with this checkpoint: one that is read in its place stands behind all that it
    is about."""
    return isinstance(record, Checkpoint) and offset < record.upto


def from_checkpoint(ledger: Iterable[LedgerRecord | None], start: int) -> list[Kept]:
    """Return what stands for the records below `start`, where the ledger begins: its last complete checkpoint, in one,
    and the records that this kept. What stands at its `upto` is to be read next. Empty: there is none."""
    parts: dict[tuple[int, int], dict[int, Checkpoint]] = {}
    last = None
    for record in ledger:
        if isinstance(record, Checkpoint) and record.upto >= start:
            chunks = parts.setdefault((record.n - record.part, record.upto), {})
            chunks[record.part] = record
            last = chunks if len(chunks) == record.parts else last
    if last is None:
        return []
    whole = [last[part] for part in sorted(last)]
    names = tuple(name for chunk in whole for name in chunk.names)
    first = Kept(offset=whole[0].upto - 1, record=replace(whole[0], kept=(), names=names))
    return [first, *(kept for chunk in whole for kept in chunk.kept)]


def take_checkpoint(
    ledger: Iterable[tuple[int, LedgerRecord | None]],
    *,
    first_n: int,
    chunk: int = 50,
    snapshots: int = KEEP_DECIDED,
    times_ms: Mapping[int, int] | None = None,
    fits: Callable[[Checkpoint], bool] = lambda chunk: True,
) -> list[Checkpoint]:
    """Return the checkpoint of a ledger, to be appended to it in this order.

    Args:
        ledger: every record with its offset, as `LedgerState.apply` takes them.
        first_n: number of the first chunk; the others follow.
        chunk: records per chunk, at most.
        snapshots: how many of the latest captured snapshots are kept, next to those that are open.
        times_ms: when the broker appended what stands at an offset, for tools that report it.
        fits: returns whether a chunk is small enough for the ledger; one that is not is split.
    """
    state = _Remembering()
    for at, record in ledger:
        state.apply(at, record)
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
    """A fold that remembers the records that it took in, without garbage."""

    def __init__(self) -> None:
        super().__init__()
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
