"""A checkpoint: the part of the ledger that still matters, so that older records may go.

Nothing is translated: the records themselves are kept, each with its offset, and a reader that starts from them folds
them like any others. So the fold alone defines the meaning of a checkpoint. A record matters as long as it can still
change an answer: the processes that run or left recently, the owners of inputs, the snapshots that are open or may
still be assembled, retired apps, a pause. Dropped epochs lie below `highest_epoch`, so a reader that starts from a
checkpoint never takes one of them for new. Their names stay taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from .ledger_fold import KEEP_DECIDED, KEEP_LEFT
from .ledger_state import LedgerState
from .records import (
    NOBODY,
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Dead,
    Hello,
    Kept,
    LedgerRecord,
    Report,
    Trigger,
    Verdict,
)

_T = TypeVar("_T")

#: Names and numbers are small: so many go into a chunk for each record.
SMALL: Final = 4


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
    names = state.taken()
    parts = max(1, -(-len(kept) // chunk), -(-len(names) // (SMALL * chunk)))
    return [
        Checkpoint(
            n=first_n + part,
            upto=state.end,
            highest_epoch=state.highest_epoch,
            left_at=state.left_at,
            part=part,
            parts=parts,
            kept=_part(kept, part, chunk),
            names=_part(names, part, SMALL * chunk),
        )
        for part in range(parts)
    ]


def _part(items: Sequence[_T], part: int, size: int) -> tuple[_T, ...]:
    return tuple(items[part * size : (part + 1) * size])


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
