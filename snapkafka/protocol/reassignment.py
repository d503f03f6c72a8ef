"""Inputs that are assigned and revoked while a snapshot runs (R9, R10).

An input may be reassigned at any time. These rules keep the cut consistent:

* A process to which inputs are assigned reports it (`Assigned`) and reads the ledger up to that record before it runs
  them. If an earlier reader of one of them is red for an epoch, the process turns red for that epoch first: only a red
  process reads a red input.
* An input that no process has cut yet for E, assigned to a process that is red for E already, is cut *where it
  starts*: at the position after the old reader's commit, with the table as it was recovered. No event of the new
  reader lies on the white side of that, and none of the old reader's on the red side. It gets a `CutReport` of its
  own, the supplement, which counts with a `Closed` of its own.
* The inputs of an app that does not run do not move. The living process with the smallest id cuts them at the
  committed offsets of the group. It has to be seen that the app does not run: its group has no member when the cut is
  made, and again when every process has closed, and nothing has moved in between. A worker of it that ran meanwhile
  without snapkafka could take in red records and pass their content on, unstamped, to a process that is still white.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .actions import AskStopped
from .events import AssignedInput, InputsAssigned, StoppedSeen
from .ledger_view import LedgerView
from .records import Assigned, ChangelogEnd, Closed, CutReport, LogEnd, Position, Table, TopicPartition
from .snapshots import ProcessView


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
    ends: tuple[LogEnd, ...] | None = None
    asked: AskStopped | None = None  # of an app that does not run; None: that is no matter, or was seen twice

    def due(self, ledger: LedgerView) -> AskStopped | None:
        """Return the second question, once, when every process has closed: has the app not moved since? (R10)"""
        snapshot = ledger.open.get(self.report.epoch)
        if self.asked is None or self.asked.again or self.at is None or snapshot is None:
            return None
        if not snapshot.required <= snapshot.closed.keys():
            return None
        self.asked = replace(self.asked, again=True)
        return self.asked

    def serves(self, epoch: int) -> bool:
        return self.report.previous < epoch <= self.report.epoch

    @property
    def ready(self) -> bool:
        """Whether everything that its `Closed` states is known."""
        return self.at is not None and self.ends is not None and self.asked is None

    def closed(self, n: int) -> Closed:
        """Return the record that makes it count."""
        assert self.at is not None and self.ends is not None
        return Closed(
            process=self.report.process,
            n=n,
            epoch=self.report.epoch,
            report=self.at,
            changelogs=self.changelogs,
            input_ends=self.ends,
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
    app: str = "",
) -> OpenSupplement:
    """Cut inputs where they start, for one snapshot."""
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


def ask_stopped(ledger: LedgerView, epoch: int, process: int | None) -> list[AskStopped]:
    """Return the questions about apps that are not running (R10), if this is the living process with the smallest id,
    which cuts their inputs.

    An app that reads from the latest record starts at the end of an input without a committed offset. At the cut that
    was where the trigger has it (R1): records after that may be red, and have to lie above the position.
    """
    snapshot = ledger.open.get(epoch)
    if snapshot is None or process != min(snapshot.required, default=None):
        return []
    uncut = ledger.uncut(epoch)
    return [
        AskStopped(
            epoch=epoch,
            app=app,
            asked_at=ledger.end - 1,
            inputs=tuple(sorted(tp for owner, tp in uncut if owner == app)),
            tables=tuple(_as_large_as_known(ledger, youngest, table) for table in youngest.hello.tables),
            starts=snapshot.trigger.ends if youngest.hello.reset == "latest" else (),
        )
        for app in ledger.stopped_apps(epoch)
        for youngest in [ledger.youngest(app)]
    ]


def _as_large_as_known(ledger: LedgerView, view: ProcessView, table: Table) -> Table:
    """Return a table with all known partitions of its changelog: there may be more than when the app joined, and those
    that were assigned since count, too."""
    known = (
        tp.partition + 1
        for (app, tp), owner in ledger.owners.items()
        if (app, tp.topic) == (view.hello.app, table.changelog) and owner.offset > view.process
    )
    return replace(table, partitions=max(table.partitions, *known, 0))


def runs(event: StoppedSeen, ledger: LedgerView) -> str:
    """Explain why an app cannot be taken for one that does not run (R10); empty: it can. Processes that have joined
    since are members, too, and known."""
    if event.unseen:
        return f"app {event.app} is not known to be stopped: {event.unseen}"
    if event.members > sum(view.hello.app == event.app for view in ledger.living()):
        return (
            f"app {event.app} runs without snapkafka: its consumer group has {event.members} members, and no process of"
            " it takes part; start its workers with snapkafka, or stop them (one that was killed counts until its"
            " session is over)"
        )
    return ""


def stood_still(item: OpenSupplement, event: StoppedSeen) -> bool:
    """Return whether the second answer equals the first, for what must not move. Others may have written to its
    inputs."""
    return (event.positions, event.changelogs) == (item.report.positions, item.changelogs)


def stopped(event: StoppedSeen, asked: AskStopped, *, process: int, n: int) -> OpenSupplement:
    """Cut an app that does not run, by the broker's answer."""
    item = supplement(
        process=process,
        n=n,
        epoch=event.epoch,
        assigned=event.asked_at,
        positions=event.positions,
        changelogs=event.changelogs,
        app=event.app,
    )
    item.ends, item.asked = event.ends, asked
    return item
