"""A checkpoint: the part of the ledger that still matters, so that older records may go.

Nothing is translated: the records themselves are kept, each with the offset where it stood, and a reader that starts
from them folds them like any others. So what a checkpoint means is defined by the fold, and by nothing else. A record
matters as long as it can still change an answer: who lives and who left of late, who has which input, the snapshots
that are open or may still be assembled, apps retired, pauses. Epochs that were dropped lie below `highest_epoch`, and
nobody who starts from a checkpoint can meet one of them as news.
"""

from __future__ import annotations

from collections.abc import Iterable

from .completion import KEEP_DECIDED, KEEP_LEFT, LedgerState
from .records import (
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Closed,
    CutReport,
    Dead,
    Hello,
    Kept,
    LedgerRecord,
    Pause,
    Retire,
    Trigger,
    Verdict,
)

__all__ = ["take_checkpoint"]


def take_checkpoint(
    ledger: Iterable[tuple[int, LedgerRecord]],
    state: LedgerState,
    *,
    first_n: int,
    chunk: int = 100,
    snapshots: int = KEEP_DECIDED,
) -> list[Checkpoint]:
    """The checkpoint of a ledger that was read from its beginning to the end of `state`.

    Args:
        ledger: the records with their offsets, as `state` took them in (its history is needed).
        first_n: number of the first chunk; the others follow.
        chunk: records per chunk, so that each stays small enough for the ledger.
        snapshots: how many of the latest captured snapshots are kept, next to those that are open.
    """
    matter = _Matter(state, snapshots)
    kept = [Kept(offset=at, record=record) for at, record in ledger if matter.still(at, record)]
    chunks = [tuple(kept[at : at + chunk]) for at in range(0, len(kept), chunk)] or [()]
    return [
        Checkpoint(
            n=first_n + part,
            upto=state.end,
            highest_epoch=state.highest_epoch,
            part=part,
            parts=len(chunks),
            kept=items,
        )
        for part, items in enumerate(chunks)
    ]


class _Matter:
    """Which records still matter."""

    def __init__(self, state: LedgerState, snapshots: int) -> None:
        captured = [epoch for epoch, view in state.snapshots.items() if view.captured_at is not None]
        self.epochs = {*state.open, *captured[max(0, len(captured) - snapshots) :]}
        #: What stood before the first snapshot that is kept matters only as the latest word on its subject.
        self.since = min(self.epochs, default=state.end + 1) - 1
        left = [view.process for view in state.processes.values() if view.left is not None]
        alive = {view.hello.app for view in state.living()}
        last_of_stopped = {
            v.hello.app: v.process for v in state.processes.values() if v.hello.app not in alive
        }
        self.processes = {
            *(view.process for view in state.living()),
            *left[max(0, len(left) - KEEP_LEFT) :],
            *last_of_stopped.values(),
        }
        self.assigned = {owner.offset for owner in state.owners.values()}
        self.state = state

    def still(self, at: int, record: LedgerRecord) -> bool:
        match record:
            case Hello():
                return at in self.processes
            case Bye():
                return record.process in self.processes
            case Dead():
                return record.dead in self.processes
            case Assigned():
                return at in self.assigned or (at >= self.since and record.process in self.processes)
            case CutReport():
                return any(record.previous < epoch <= record.epoch for epoch in self.epochs)
            case Closed():
                return any(
                    record.epoch >= epoch and record.process in self.processes for epoch in self.epochs
                )
            case Trigger():
                return at + 1 in self.epochs
            case Abort() | Verdict():
                return record.epoch in self.epochs
            case Retire():
                return self.state.retired.get(record.app) == at
            case Pause():
                return record.paused and self.state.paused
            case Checkpoint():
                return False
