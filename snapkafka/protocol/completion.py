"""When is a snapshot captured? A fold of the ledger, the same for every reader (R11).

`LedgerState.apply(offset, record)` is all there is: no clock, no coordinator. Whoever has read the ledger up to the
same offset holds the same state, so nobody has to be asked, and nobody has to be alive for a snapshot to complete.

    Trigger ──> capturing ──every expected input cut, every required sender closed──> captured ──Verdict──> completed
                    └──Abort, a required sender lost, an input moved under it───────> failed

What comes first stands: a late `Abort` does not undo a capture, a late `Closed` does not mend a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from .records import (
    NOBODY,
    Abort,
    Assigned,
    Bye,
    Closed,
    CutReport,
    Dead,
    Hello,
    LedgerRecord,
    Retire,
    TopicPartition,
    Trigger,
    Verdict,
)

if TYPE_CHECKING:
    from .captured import Captured

__all__ = ["Failure", "Input", "LedgerState", "ProcessView", "SnapshotView", "Status", "Waiting"]

#: An input: the app that reads it, and where.
Input = tuple[str, TopicPartition]


class Status(StrEnum):
    """The words for outcomes (design, section 9)."""

    INITIATED = "INITIATED"
    CAPTURING = "CAPTURING"
    CAPTURED = "CAPTURED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a snapshot failed: a stable code, a sentence, and who held it up."""

    code: str
    reason: str
    culprit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One thing that a running snapshot still waits for: an input to be cut, or a sender to report or to close."""

    what: str  # "input", "report" or "closing"
    process: int = NOBODY
    app: str = ""
    topic: str = ""
    partition: int = -1

    def __str__(self) -> str:
        who = f"process {self.process} of app {self.app}" if self.process != NOBODY else f"app {self.app}"
        match self.what:
            case "input":
                return f"the cut of input {self.topic}[{self.partition}] by {who}"
            case "report":
                return f"{who} to cut and report"
            case _:
                return f"{who} to close: its white events, sends and markers are not all done"


@dataclass(slots=True, kw_only=True)
class ProcessView:
    """What the ledger says of one process."""

    process: int
    hello: Hello
    assigned: int = -1
    inputs: tuple[TopicPartition, ...] = ()
    left: int | None = None  # ledger offset of its Bye or Dead
    dead: bool = False

    @property
    def name(self) -> str:
        return f"process {self.process} ({self.hello.app} on {self.hello.host}, pid {self.hello.pid})"


@dataclass(slots=True, kw_only=True)
class SnapshotView:
    """What the ledger says of one snapshot, so far."""

    epoch: int
    trigger: Trigger
    required: frozenset[int]
    left: frozenset[int]  # processes in scope that had left before the trigger
    expected: set[Input]
    reports: dict[int, tuple[int, CutReport]] = field(default_factory=dict)
    closed: dict[int, tuple[int, Closed]] = field(default_factory=dict)
    captured_at: int | None = None  # ledger offset of the record that completed it
    failure: Failure | None = None
    failed_at: int | None = None
    verdict: Verdict | None = None

    @property
    def open(self) -> bool:
        """Neither captured nor failed yet."""
        return self.captured_at is None and self.failure is None

    @property
    def status(self) -> Status:
        if self.failure is not None:
            return Status.FAILED
        if self.captured_at is not None:
            return Status.CAPTURED if self.verdict is None else Status.COMPLETED
        return Status.CAPTURING if self.reports else Status.INITIATED

    def cut_inputs(self) -> set[TopicPartition]:
        """Every partition named in a report that landed (closed or not)."""
        return {
            TopicPartition(position.topic, position.partition)
            for _, report in self.reports.values()
            for position in report.positions
        }


class LedgerState:
    """The fold. Feed it every record in the order of the ledger; repeats and strangers are dropped."""

    def __init__(self) -> None:
        self.end = 0  # one past the last ledger offset that was applied
        self.processes: dict[int, ProcessView] = {}
        self.snapshots: dict[int, SnapshotView] = {}
        self.open: dict[int, SnapshotView] = {}  # those neither captured nor failed
        self.by_id: dict[tuple[str, int], int] = {}
        self.retired: set[str] = set()
        self.owners: dict[
            Input, tuple[int, int]
        ] = {}  # input -> (ledger offset of its latest Assigned, process)
        self.highest_epoch = 0
        self._seen: set[tuple[int, int]] = set()

    # -- feeding ----------------------------------------------------------------------------------------------

    def apply(self, offset: int, record: LedgerRecord | None) -> None:
        """Take in the record at `offset`; `None` stands for garbage, which only moves the end.

        Offsets rise but need not be contiguous (a transaction of somebody, a trimmed log).
        """
        assert offset >= self.end, "the ledger is read in its order"
        self.end = offset + 1
        if record is None or (record.process, record.n) in self._seen:
            return
        self._seen.add((record.process, record.n))
        match record:
            case Hello():
                self.processes[offset] = ProcessView(process=offset, hello=record)
            case Assigned():
                self._assigned(offset, record)
            case Trigger():
                self._trigger(offset, record)
            case CutReport():
                self._report(offset, record)
            case Closed():
                self._close(offset, record)
            case Abort():
                failure = Failure(code=record.code, reason=record.reason, culprit=record.culprit)
                self._fail(offset, self.snapshots.get(record.epoch), failure)
            case Dead():
                self._leave(offset, record.dead, dead=True)
            case Bye():
                self._leave(offset, record.process, dead=False)
            case Retire():
                self._retire(offset, record.app)
            case Verdict():
                snapshot = self.snapshots.get(record.epoch)
                if snapshot is not None and snapshot.captured_at is not None:
                    snapshot.verdict = record

    # -- asking -----------------------------------------------------------------------------------------------

    def is_epoch(self, epoch: int) -> bool:
        """Is there a `Trigger` at `epoch` - 1, the first of its (id, attempt)? Else it is no epoch (R1, R2)."""
        return epoch in self.snapshots

    def living(self) -> Iterator[ProcessView]:
        """Processes that said `Hello` and neither `Bye` nor were `Dead`."""
        return (view for view in self.processes.values() if view.left is None)

    def waiting(self, epoch: int) -> list[Waiting]:
        """What the snapshot of `epoch` still waits for, most telling first; empty when it is captured."""
        snapshot = self.snapshots[epoch]
        waits = [
            Waiting(what="closing" if p in snapshot.reports else "report", process=p, app=self.app_of(p))
            for p in sorted(snapshot.required - snapshot.closed.keys())
        ]
        for app, (topic, partition) in sorted(snapshot.expected - self._counted_inputs(snapshot)):
            owner = self.owners.get((app, TopicPartition(topic, partition)), (-1, NOBODY))[1]
            waits.append(Waiting(what="input", process=owner, app=app, topic=topic, partition=partition))
        return waits

    def input_topics(self) -> set[str]:
        """Every topic that some living app named as an input."""
        return {source.topic for view in self.living() for source in view.hello.inputs}

    def captured(self, epoch: int) -> Captured:
        """The vector of offsets of a captured snapshot (see `captured.gather`)."""
        from .captured import gather  # who only takes part never asks

        return gather(self, epoch)

    # -- one record each --------------------------------------------------------------------------------------

    def _assigned(self, offset: int, record: Assigned) -> None:
        view = self.processes.get(record.process)
        if view is None:
            return
        view.assigned, view.inputs = offset, record.inputs
        for tp in record.inputs:
            self.owners[view.hello.app, tp] = (offset, record.process)

    def _trigger(self, offset: int, record: Trigger) -> None:
        key = (record.id, record.attempt)
        if key in self.by_id:
            return  # the first Trigger of an (id, attempt) is the snapshot; later ones are no epochs
        epoch = offset + 1
        in_scope = [
            view for view in self.processes.values() if not record.apps or view.hello.app in record.apps
        ]
        living = [view for view in in_scope if view.left is None]
        self.by_id[key] = epoch
        self.highest_epoch = epoch
        self.snapshots[epoch] = self.open[epoch] = SnapshotView(
            epoch=epoch,
            trigger=record,
            required=frozenset(view.process for view in living),
            left=frozenset(view.process for view in in_scope if view.left is not None),
            expected=self._expected_inputs(in_scope, living),
        )

    def _expected_inputs(self, in_scope: list[ProcessView], living: list[ProcessView]) -> set[Input]:
        """Topics x partitions of the living apps, and of stopped ones that are not retired (their last `Hello`)."""
        apps_alive = {view.hello.app for view in living}
        last_hello = {view.hello.app: view for view in in_scope if view.hello.app not in self.retired}
        hellos = living + [view for app, view in last_hello.items() if app not in apps_alive]
        return {
            (view.hello.app, TopicPartition(source.topic, partition))
            for view in hellos
            for source in view.hello.inputs
            for partition in range(source.partitions)
        }

    def _report(self, offset: int, record: CutReport) -> None:
        view = self.processes.get(record.process)
        if view is None:
            return
        moved = [
            tp
            for tp in {TopicPartition(p.topic, p.partition) for p in record.positions}
            if self.owners.get((view.hello.app, tp), (-1, NOBODY))[0] != record.assigned
        ]
        for snapshot in self._served(record.previous, record.epoch):
            if moved:
                # R9: inputs moved away (or even came back) before the report landed; it is void.
                reason = f"input {min(moved)} moved while {view.name} was reporting its cut"
                self._fail(
                    offset, snapshot, Failure(code="input-moved", reason=reason, culprit=str(min(moved)))
                )
            elif record.process not in snapshot.reports:
                snapshot.reports[record.process] = (offset, record)
                self._complete(offset, snapshot)

    def _close(self, offset: int, record: Closed) -> None:
        for snapshot in list(self.open.values()):
            report = snapshot.reports.get(record.process)
            # R4: a report counts only with its Closed, and a Closed only with the report that it names.
            if report is not None and report[0] == record.report and record.process not in snapshot.closed:
                snapshot.closed[record.process] = (offset, record)
                self._complete(offset, snapshot)

    def _leave(self, offset: int, process: int, *, dead: bool) -> None:
        view = self.processes.get(process)
        if view is None or view.left is not None:
            return
        view.left, view.dead = offset, dead
        for snapshot in list(self.open.values()):
            if process in snapshot.required - snapshot.closed.keys():
                # R12: nobody closes for somebody else.
                how = "was lost" if dead else "stopped"
                failure = Failure(
                    code="process-lost",
                    reason=f"{view.name} {how} before it closed",
                    culprit=f"process {process}",
                )
                self._fail(offset, snapshot, failure)

    def _retire(self, offset: int, app: str) -> None:
        self.retired.add(app)
        apps_alive = {view.hello.app for view in self.living()}
        for snapshot in list(self.open.values()):
            if app not in apps_alive:
                snapshot.expected = {item for item in snapshot.expected if item[0] != app}
                self._complete(offset, snapshot)

    # -- deciding ---------------------------------------------------------------------------------------------

    def _served(self, previous: int, epoch: int) -> list[SnapshotView]:
        """One cut serves all open snapshots in (previous, epoch] (R2)."""
        return [view for e, view in self.open.items() if previous < e <= epoch]

    def _counted_inputs(self, snapshot: SnapshotView) -> set[Input]:
        return {
            (self.app_of(p), TopicPartition(position.topic, position.partition))
            for p in snapshot.closed
            for position in snapshot.reports[p][1].positions
        }

    def _complete(self, offset: int, snapshot: SnapshotView) -> None:
        if not snapshot.open or not snapshot.required <= snapshot.closed.keys():
            return
        if snapshot.expected <= self._counted_inputs(snapshot):
            snapshot.captured_at = offset
            del self.open[snapshot.epoch]

    def _fail(self, offset: int, snapshot: SnapshotView | None, failure: Failure) -> None:
        if snapshot is not None and snapshot.open:
            snapshot.failure, snapshot.failed_at = failure, offset
            del self.open[snapshot.epoch]

    def app_of(self, process: int) -> str:
        """The app that a process belongs to."""
        return self.processes[process].hello.app
