"""The fold of the ledger, part one: how a snapshot is triggered, cut and decided (R1, R4, R9, R11).

The first record stands: a late `Abort` does not undo a capture, and a late `Report` does not fix a failure.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from . import alignment, unstamped
from .latest import Latest
from .ledger_view import LedgerView
from .readers import Input, Reader
from .records import (
    APP_RUNS_WITHOUT,
    APP_STOPPED,
    CONTAMINATING,
    INPUT_MOVED,
    INPUT_UNASSIGNED,
    LEDGER_CUT_SHORT,
    NOBODY,
    RESTORE,
    RESTORING,
    Abort,
    Report,
    StoppedApp,
    TopicPartition,
    Trigger,
    Verdict,
)
from .restores import RestoreView
from .snapshots import Failure, Part, ProcessView, SnapshotView

#: A process that only takes part remembers so many decided snapshots: no epoch so old comes as news.
KEEP_DECIDED: Final = 64
#: So many names of snapshots (id, attempt) are taken, the same for every reader; and so many epochs are known.
KEEP_NAMES: Final = 500


class SnapshotFold(LedgerView):
    """The snapshots of a ledger, as far as it was read.

    Args:
        history: remember every snapshot. Without, memory is bounded, whatever the ledger holds.
    """

    def __init__(self, *, history: bool) -> None:
        super().__init__()
        self._history = history
        if not history:
            self._epochs = Latest(KEEP_NAMES)
        self._names: Latest[tuple[str, int]] = Latest(KEEP_NAMES)  # those that are taken (R1)
        self._latest_captured: dict[str, int] = {}  # app -> epoch, without a history

    def _trigger(self, offset: int, record: Trigger) -> None:
        key = (record.id, record.attempt)
        if key in self._names:
            return  # the first Trigger of an (id, attempt) is the snapshot; later ones are no epochs
        self._names.add(key)
        epoch = offset + 1
        in_scope = [
            view
            for view in self.processes.values()
            if not record.apps or view.hello.app in record.apps or view.hello.mode == RESTORE
        ]
        living = [v for v in self.participants() if not record.apps or v.hello.app in record.apps]
        hellos = self.standing(record.apps)
        snapshot = SnapshotView(
            epoch=epoch,
            trigger=record,
            required=frozenset(view.process for view in living),
            left=frozenset(view.process for view in in_scope if view.left is not None and not view.hidden),
            expected=self.inputs_of(hellos),
            apps=self.topics_of(hellos),
            # Where a changelog is the input of another app, the app of the table would wait in its next recovery for
            # what a marker's offset does not hold.
            markers=frozenset(record.marker_topics) - self.changelogs(),
            unread=self.unread(record.apps),
        )
        self.by_id[key] = self.latest_of[record.id] = epoch
        self.snapshots[epoch] = self.open[epoch] = snapshot
        if self.tails.hides(offset):
            self._fail(offset, snapshot, cut_short(self.tails.upto))
            return
        if self.paused:
            reason = "snapshots are paused in this namespace"
            self._fail(offset, snapshot, Failure(code="paused", reason=reason))
            return
        if self.restores.open is not None and self.restores.open.concerns(record.apps):
            self._fail(offset, snapshot, being_restored(self.restores.open))
            return
        if without := [view for view in in_scope if self.goes_on_without(view)]:
            self._fail(offset, snapshot, runs_without(without[0]))
            return
        self.highest_epoch = epoch
        self._epochs.add(epoch)
        if (
            0 <= record.asked_at <= self.left_at
        ):  # its last records may lie behind the ends that were asked for (R8)
            last = next(
                (process for process, view in self.processes.items() if view.left == self.left_at), NOBODY
            )
            reason = f"process {last} left while the snapshot was being requested: where its records end is unknown"
            self._fail(
                offset, snapshot, Failure(code="process-lost", reason=reason, culprit=f"process {last}")
            )
            return
        self._cut_stopped(offset, snapshot)

    def _cut_stopped(self, offset: int, snapshot: SnapshotView) -> None:
        """Take the cuts of apps that do not run from the trigger (R10): who starts later is born red, and begins at
        these positions. Since its author looked none of them has run, or it would have left since."""
        stated = {item.app: item for item in snapshot.trigger.stopped}
        for app in (view.hello.app for view in self.stopped(snapshot.trigger.apps)):
            item = stated.get(app, StoppedApp(app=app))
            inputs = {(app, TopicPartition(p.topic, p.partition)) for p in item.positions}
            if app not in stated or not {it for it in snapshot.expected if it[0] == app} <= inputs:
                reason = f"app {app} stopped, or got inputs, while the snapshot was being requested"
                self._fail(offset, snapshot, Failure(code=APP_STOPPED, reason=reason, culprit=f"app {app}"))
                return
            snapshot.stopped += (_stopped_part(snapshot.epoch, item),)

    def _report(self, offset: int, record: Report) -> None:
        """Take the cut of a process, if it is that of the inputs that are its own (R9)."""
        view = self.processes.get(record.process)
        if view is None or view.left is not None:
            return
        app = view.hello.app
        self._cut_beside(record, app)
        cut = {TopicPartition(p.topic, p.partition) for p in record.positions}
        moved = cut ^ self.inputs_read_by(view)
        for snapshot in [s for e, s in self.open.items() if record.previous < e <= record.epoch]:
            if app not in snapshot.apps or record.process in snapshot.reports:
                continue
            if moved or record.assigned != view.assigned:
                self._fail(offset, snapshot, input_moved(view, moved))
                continue
            snapshot.reports[record.process] = (offset, record)
            self._complete(offset, snapshot)

    def _cut_beside(self, record: Report, app: str) -> None:
        """Note a process that turned red for snapshots of other apps, decided ones too, before it took in any red."""
        for epoch in reversed(self.snapshots):
            if epoch <= record.previous:
                break
            if epoch <= record.epoch and app not in self.snapshots[epoch].apps:
                self.snapshots[epoch].beside.add(record.process)

    def _abort(self, offset: int, record: Abort) -> None:
        snapshot = self.snapshots.get(record.epoch)
        if snapshot is not None and snapshot.open:
            failure = Failure(code=record.code, reason=record.reason, culprit=record.culprit)
            self._fail(offset, snapshot, failure)
        elif snapshot is not None and snapshot.failure is None and record.code in CONTAMINATING:
            snapshot.contaminated = record.reason

    def _verdict(self, record: Verdict) -> None:
        snapshot = self.snapshots.get(record.epoch)
        if snapshot is not None and snapshot.captured_at is not None:
            snapshot.verdict = record

    # -- deciding ---------------------------------------------------------------------------------------------

    def _complete(self, offset: int, snapshot: SnapshotView) -> None:
        """Capture the snapshot, or fail it, once every required process has reported."""
        if not snapshot.open or not snapshot.required <= snapshot.reports.keys():
            return
        earlier: dict[Input, tuple[Reader, ...]] = {}
        for part in snapshot.parts():
            app = part.app or self.app_of(part.process)
            for position in part.report.positions:
                item = app, TopicPartition(position.topic, position.partition)
                readers = self.readers.get(item, ())
                earlier[item] = readers if part.app else readers[:-1]
        failure = unstamped.in_flight(snapshot, self.processes) or alignment.in_flight(self, snapshot)
        if missing := snapshot.expected - earlier.keys():
            app, tp = min(missing)
            reason = f"no process of app {app} was assigned its input {tp} when the snapshot was requested"
            failure = Failure(code=INPUT_UNASSIGNED, reason=reason, culprit=str(tp))
        if failure is not None:
            self._fail(offset, snapshot, failure)
        else:
            snapshot.captured_at, snapshot.earlier = offset, earlier
            self._decided(snapshot)

    def _fail(self, offset: int, snapshot: SnapshotView, failure: Failure) -> None:
        if snapshot.open:
            snapshot.failure, snapshot.failed_at = failure, offset
            self._decided(snapshot)

    def _decided(self, snapshot: SnapshotView) -> None:
        del self.open[snapshot.epoch]
        if self._history:
            return
        self._forget_parts(snapshot)
        decided = [epoch for epoch in self.snapshots if epoch not in self.open]
        for epoch in decided[:-KEEP_DECIDED]:
            trigger = self.snapshots.pop(epoch).trigger
            del self.by_id[trigger.id, trigger.attempt]
            if self.latest_of[trigger.id] == epoch:
                del self.latest_of[trigger.id]

    def _forget_parts(self, decided: SnapshotView) -> None:
        """Forget reports of captured snapshots, but for the latest one of each app: those state where its restored
        inputs begin (`restored_starts`)."""
        over = {decided.epoch}
        for app in decided.apps if decided.failure is None else ():
            over.add(self._latest_captured.get(app, decided.epoch))
            self._latest_captured[app] = max(decided.epoch, self._latest_captured.get(app, 0))
        for epoch in over.difference(self._latest_captured.values()) & self.snapshots.keys():
            self.snapshots[epoch].forget()


def input_moved(view: ProcessView, inputs: Collection[TopicPartition]) -> Failure:
    """Return the failure of snapshots during which inputs are assigned, or whose reports do not have the inputs that
    their processes have (R9)."""
    which = f"input {min(inputs)}" if inputs else "inputs"
    reason = f"a rebalance moved {which} of {view.name} while the snapshot was taken"
    return Failure(code=INPUT_MOVED, reason=reason, culprit=str(min(inputs, default=view.hello.app)))


def runs_without(view: ProcessView) -> Failure:
    """Return the failure of the snapshots of an app that runs without taking part (R10)."""
    return Failure(
        code=APP_RUNS_WITHOUT,
        reason=f"{view.withdrawal}: restart it, its log has the error",
        culprit=f"app {view.hello.app}",
    )


def cut_short(upto: int) -> Failure:
    """Return the failure of snapshots whose ledger has lost records that were read."""
    return Failure(
        code=LEDGER_CUT_SHORT,
        reason=f"{LEDGER_CUT_SHORT}: acknowledged records below offset {upto} of the ledger are lost",
    )


def being_restored(view: RestoreView) -> Failure:
    """Return the failure of snapshots of apps that are being restored."""
    apps = ", ".join(view.apps)
    return Failure(
        code=RESTORING,
        reason=f"{view} is being restored: no snapshot of {apps} before it is done",
        culprit=f"plan {view.plan}",
    )


def _stopped_part(epoch: int, item: StoppedApp) -> Part:
    """Return what stands for the report of an app that does not run."""
    report = Report(
        process=NOBODY,
        n=0,
        epoch=epoch,
        previous=epoch - 1,
        heard="ledger",
        assigned=epoch - 1,
        positions=item.positions,
        changelogs=item.changelogs,
    )
    return Part(process=NOBODY, at=epoch - 1, report=report, app=item.app)
