"""Inputs that come and go while a snapshot runs (R9, R10).

An input may change hands at any time. What keeps the cut whole:

* A process that is given inputs says so (`Assigned`) and reads the ledger up to there before it runs them. If anybody
  who had one of them is red for an epoch, it turns red for that epoch first: a red input lives only in a red process.
* An input that nobody has cut yet for E, given to a process that is red for E already, is cut *where it starts*: at
  the position after the old reader's commit, with the table as it was recovered. No event of the new reader lies on
  the white side of that, and none of the old reader's on the red side. A `CutReport` of its own says so, the
  supplement, and counts with a `Closed` of its own.
* The inputs of an app that does not run stand still. The living process with the smallest id cuts them, by what the
  group committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .completion import LedgerState
from .records import ChangelogEnd, Closed, CutReport, LogEnd, Position, TopicPartition

__all__ = ["OpenSupplement", "came_uncut", "red_before", "supplement"]


@dataclass(slots=True, kw_only=True)
class OpenSupplement:
    """A supplement whose `Closed` is not written yet."""

    report: CutReport
    changelogs: tuple[ChangelogEnd, ...]
    at: int | None = None  # ledger offset of the report, once it is read back
    ends: tuple[LogEnd, ...] | None = None

    def serves(self, epoch: int) -> bool:
        return self.report.previous < epoch <= self.report.epoch

    def closed(self, n: int) -> Closed | None:
        """The record that makes it count, once all of it is known."""
        if self.at is None or self.ends is None:
            return None
        return Closed(
            process=self.report.process,
            n=n,
            epoch=self.report.epoch,
            report=self.at,
            changelogs=self.changelogs,
            input_ends=self.ends,
        )


def red_before(ledger: LedgerState, app: str, inputs: Iterable[TopicPartition]) -> int:
    """The highest epoch that an earlier reader of these inputs is red for (R9)."""
    return max((ledger.owners[app, tp].before for tp in inputs), default=0)


def came_uncut(
    ledger: LedgerState, app: str, inputs: Iterable[TopicPartition], upto: int
) -> dict[int, list[TopicPartition]]:
    """Which of these inputs have to be cut where they start, for which open epochs up to `upto` (R10)."""
    mine = {(app, tp) for tp in inputs}
    uncut = {
        epoch: sorted(tp for _, tp in mine & ledger.uncut(epoch)) for epoch in ledger.open if epoch <= upto
    }
    return {epoch: tps for epoch, tps in uncut.items() if tps}


def supplement(
    *,
    process: int,
    n: int,
    epoch: int,
    assigned: int,
    positions: tuple[Position, ...],
    changelogs: tuple[ChangelogEnd, ...],
    app: str = "",
) -> OpenSupplement:
    """The cut of inputs where they start, for one snapshot."""
    report = CutReport(
        process=process,
        n=n,
        epoch=epoch,
        previous=epoch - 1,
        heard="stopped" if app else "assigned",
        assigned=assigned,
        positions=positions,
        supplement=True,
        app=app,
        changelogs=tuple(sorted(TopicPartition(end.topic, end.partition) for end in changelogs)),
    )
    return OpenSupplement(report=report, changelogs=changelogs)
