"""Inputs that are assigned and revoked while a snapshot runs (R9, R10).

An input may be reassigned at any time. These rules keep the cut consistent:

* A process to which inputs are assigned reports it (`Assigned`) and reads the ledger up to that record before it runs
  them. If an earlier reader of one of them is red for an epoch, the process turns red for that epoch first: only a red
  process reads a red input.
* An input that no process has cut yet for E, assigned to a process that is red for E already, is cut *where it
  starts*: at the position after the old reader's commit, with the table as it was recovered. No event of the new
  reader lies on the white side of that, and none of the old reader's on the red side. It gets a `CutReport` of its
  own, the supplement, which counts with a `Closed` of its own.
* The inputs of an app that does not run do not move: the trigger states where they stand, as its author saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .events import AssignedInput, InputsAssigned
from .ledger_view import LedgerView
from .records import Assigned, ChangelogEnd, Closed, CutReport, Position, TopicPartition


class Inputs:
    """The assigned inputs, and those of them that are our own, as far as the ledger was read up to the `Assigned`
    (R9)."""

    def __init__(self) -> None:
        self.assigned = -1  # ledger offset of our latest Assigned
        self.tables: tuple[ChangelogEnd, ...] = ()  # as recovered with them
        self.latest: InputsAssigned | None = None
        self.taken = False  # all were, and what came instead is not told yet
        self._given_n = -1
        self._ours: InputsAssigned | None = None  # the assignment that is ours, once its Assigned is read

    @property
    def ready(self) -> bool:
        """Whether the latest inputs are announced and the ledger is read up to that record."""
        return not self.taken and (self.latest is None or self._ours is self.latest)

    @property
    def announceable(self) -> bool:
        """Whether there is something to announce: revoked inputs are not."""
        return not self.taken and self.latest is not None

    def assign(self, latest: InputsAssigned) -> None:
        self.latest, self.tables, self.taken = latest, (), False

    def take(self) -> None:
        self.tables, self.taken = (), True

    def lose(self) -> None:
        """Lose all inputs: they were assigned to an id that is void."""
        self.assigned, self.tables = -1, ()

    def announce(self, process: int, n: int) -> Assigned:
        """Return the record that announces our inputs in the ledger."""
        assert self.latest is not None
        self._given_n = n
        return Assigned(
            process=process,
            n=n,
            generation=self.latest.generation,
            inputs=tuple(sorted(item.tp for item in self.latest.inputs)),
            changelogs=tuple(
                sorted(TopicPartition(end.topic, end.partition) for end in self.latest.changelogs)
            ),
            member=self.latest.member,
        )

    def is_announced_by(self, record: Assigned, process: int | None) -> bool:
        return (record.process, record.n) == (process, self._given_n)

    def announced(self, offset: int) -> bool:
        """Note that our `Assigned` was read; return whether it is the first one that reports these inputs."""
        self.assigned = offset
        first = self._ours is not self.latest
        self._ours = self.latest
        return first

    def ours(self, ledger: LedgerView, process: int) -> list[AssignedInput]:
        """Return the assigned inputs that are our own, and keep the tables that are."""
        assert self.latest is not None
        app = ledger.app_of(process)
        self.tables = tuple(
            end
            for end in self.latest.changelogs
            if ledger.owner((app, TopicPartition(end.topic, end.partition))) == process
        )
        return [item for item in self.latest.inputs if ledger.owner((app, item.tp)) == process]


@dataclass(slots=True, kw_only=True)
class OpenSupplement:
    """A supplement whose `Closed` is not written yet."""

    report: CutReport
    changelogs: tuple[ChangelogEnd, ...]
    at: int | None = None  # ledger offset of the report, once that is known

    def serves(self, epoch: int) -> bool:
        return self.report.previous < epoch <= self.report.epoch

    @property
    def ready(self) -> bool:
        """Whether everything that its `Closed` states is known."""
        return self.at is not None

    def closed(self, n: int) -> Closed:
        """Return the record that makes it count."""
        assert self.at is not None
        return Closed(
            process=self.report.process,
            n=n,
            epoch=self.report.epoch,
            report=self.at,
            changelogs=self.changelogs,
        )


def red_before(ledger: LedgerView, app: str, inputs: Iterable[TopicPartition]) -> int:
    """Return the highest epoch for which an earlier reader of these inputs is red (R9)."""
    return max((ledger.owners[app, tp].before for tp in inputs), default=0)


def came_uncut(
    ledger: LedgerView, app: str, inputs: Iterable[TopicPartition], upto: int
) -> dict[int, list[TopicPartition]]:
    """Return the inputs that have to be cut where they start, by open epoch up to `upto` (R10)."""
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
) -> OpenSupplement:
    """Cut inputs where they start, for one snapshot."""
    report = CutReport(
        process=process,
        n=n,
        epoch=epoch,
        previous=epoch - 1,
        heard="assigned",
        assigned=assigned,
        positions=positions,
        supplement=True,
        changelogs=tuple(sorted(TopicPartition(end.topic, end.partition) for end in changelogs)),
    )
    return OpenSupplement(report=report, changelogs=changelogs)
