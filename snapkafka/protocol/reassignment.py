"""Inputs that come and go while a snapshot runs (R9, R10).

An input may change hands at any time. All that keeps the cut whole:

* A process that is given inputs reports it (`Assigned`) and reads the ledger up to there before it runs them. If
  anybody who had one of them is red for an epoch, it turns red for that epoch first: a red input is only read by a red
  process.
* An input that nobody has cut yet for E, given to a process that is red for E already, is cut *where it starts*: at
  the position after the old reader's commit, with the table as it was recovered. No event of the new reader lies on
  the white side of that, and none of the old reader's on the red side. A `CutReport` of its own reports it, the
  supplement, and counts with a `Closed` of its own.
* The inputs of an app that does not run stand still. The living process with the smallest id cuts them, by what the
  group committed. That it does not run has to be seen: its group has no member, when the cut is made, and once more
  when everybody has closed, and nothing has moved in between. Anyone who would run it meanwhile without snapkafka could
  take in red and send it on, bare, to who is white still.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .actions import AskStopped
from .events import InputGiven, InputsGiven, StoppedSeen
from .ledger_view import LedgerView
from .records import Assigned, ChangelogEnd, Closed, CutReport, LogEnd, Position, Table, TopicPartition
from .snapshots import ProcessView

__all__ = [
    "Inputs",
    "OpenSupplement",
    "ask_stopped",
    "came_uncut",
    "red_before",
    "runs",
    "stood_still",
    "stopped",
    "supplement",
]


class Inputs:
    """Hold what this process was given, and what of it is its own: so much as the ledger states when it has been read
    up to the `Assigned` (R9)."""

    def __init__(self) -> None:
        self.assigned = -1  # ledger offset of our latest Assigned
        self.tables: tuple[ChangelogEnd, ...] = ()  # as recovered with them
        self.given: InputsGiven | None = None
        self.taken = False  # all were, and what came instead is not told yet
        self.kept: frozenset[TopicPartition] = frozenset()  # our own already, when the others were added
        self._given_n = -1
        self._ours: InputsGiven | None = None  # the assignment that is ours, once its Assigned is read

    @property
    def ready(self) -> bool:
        """Have the latest inputs been announced and the ledger read up to there?"""
        return not self.taken and (self.given is None or self._ours is self.given)

    @property
    def announceable(self) -> bool:
        """Is there something to announce? Not what was revoked."""
        return not self.taken and self.given is not None

    def give(self, given: InputsGiven) -> None:
        self.given, self.tables, self.taken = given, (), False
        self.kept = frozenset()

    def add(self, inputs: tuple[InputGiven, ...]) -> None:
        """These come beside what it has, which stays its own meanwhile."""
        assert self.given is not None, "what it adds to was given"
        if self.ready:
            self.kept = frozenset(item.tp for item in self.given.inputs)
        self.given = replace(self.given, inputs=(*self.given.inputs, *inputs))

    def take(self) -> None:
        self.tables, self.taken = (), True

    def lose(self) -> None:
        """It was given to an id that is void."""
        self.assigned, self.tables = -1, ()
        self.kept = frozenset()

    def announce(self, process: int, n: int) -> Assigned:
        """Return what we have now, as the ledger gets to know it."""
        assert self.given is not None
        self._given_n = n
        return Assigned(
            process=process,
            n=n,
            generation=self.given.generation,
            inputs=tuple(sorted(item.tp for item in self.given.inputs)),
            changelogs=tuple(
                sorted(TopicPartition(end.topic, end.partition) for end in self.given.changelogs)
            ),
            member=self.given.member,
        )

    def is_announced_by(self, record: Assigned, process: int | None) -> bool:
        return (record.process, record.n) == (process, self._given_n)

    def announced(self, offset: int) -> bool:
        """Our `Assigned` was read; is it the first that reports these inputs?"""
        self.assigned = offset
        first = self._ours is not self.given
        self._ours = self.given
        return first

    def ours(self, ledger: LedgerView, process: int) -> list[InputGiven]:
        """Those of the inputs given that are our own; likewise of the tables."""
        assert self.given is not None
        app = ledger.app_of(process)
        self.tables = tuple(
            end
            for end in self.given.changelogs
            if ledger.owner((app, TopicPartition(end.topic, end.partition))) == process
        )
        return [item for item in self.given.inputs if ledger.owner((app, item.tp)) == process]


@dataclass(slots=True, kw_only=True)
class OpenSupplement:
    """A supplement whose `Closed` is not written yet."""

    report: CutReport
    changelogs: tuple[ChangelogEnd, ...]
    at: int | None = None  # ledger offset of the report, once it is read back
    ends: tuple[LogEnd, ...] | None = None
    asked: AskStopped | None = None  # of an app that does not run; None: that is no matter, or was seen twice

    def due(self, ledger: LedgerView) -> AskStopped | None:
        """R10: everybody has closed, so it is time to look once more whether the app stood still; asked once."""
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
        """Is all of it known?"""
        return self.at is not None and self.ends is not None and self.asked is None

    def closed(self, n: int) -> Closed:
        """The record that makes it count."""
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
    """The highest epoch that an earlier reader of these inputs is red for (R9)."""
    return max((ledger.owners[app, tp].before for tp in inputs), default=0)


def came_uncut(
    ledger: LedgerView, app: str, inputs: Iterable[TopicPartition], upto: int
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


def ask_stopped(ledger: LedgerView, epoch: int, process: int | None) -> list[AskStopped]:
    """R10: inputs of an app that is not running are cut by the living process with the smallest id.

    One that reads from the latest record starts at the end of its inputs, where nothing is committed. At the cut that
    was where the trigger states (R1): anything that lies behind that may be red, and has to lie above the position.
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
    """Its changelog may have more partitions than when the app joined: those that came to somebody since count, too."""
    known = (
        tp.partition + 1
        for (app, tp), owner in ledger.owners.items()
        if (app, tp.topic) == (view.hello.app, table.changelog) and owner.offset > view.process
    )
    return replace(table, partitions=max(table.partitions, *known, 0))


def runs(event: StoppedSeen, ledger: LedgerView) -> str:
    """R10: why the app cannot be taken for one that does not run; empty: it can. Processes that have joined since are
    members, too, and known."""
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
    """Is what was asked for again what it was the first time? Others may have written to its inputs."""
    return (event.positions, event.changelogs) == (item.report.positions, item.changelogs)


def stopped(event: StoppedSeen, asked: AskStopped, *, process: int, n: int) -> OpenSupplement:
    """The cut of an app that does not run, by what the broker reported of it."""
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
