"""What each record of the ledger changes (R1, R4, R9, R11, R12, R15).

The first record stands: a late `Abort` does not undo a capture, and a late `Report` does not fix a failure. The latest
`Assigned` names the reader of an input.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from . import alignment
from .ledger_view import LedgerView
from .records import (
    APP_STOPPED,
    CONTAMINATING,
    INPUT_UNASSIGNED,
    LEDGER_CUT_SHORT,
    NOBODY,
    RESTORE,
    RESTORING,
    Abort,
    Assigned,
    Bye,
    Hello,
    Report,
    Restore,
    StoppedApp,
    TailLost,
    TopicPartition,
    Trigger,
    Verdict,
)
from .restores import RestoreView
from .snapshots import (
    UNKNOWN,
    Failure,
    Input,
    ProcessView,
    Reader,
    SnapshotView,
    add_reader,
    input_moved,
    recreated_since,
    runs_without,
    stopped_part,
    unstamped_in_flight,
)

#: A process that only takes part remembers so many decided snapshots: no epoch so old comes as news.
KEEP_DECIDED: Final = 64
#: So many names of snapshots (id, attempt) are taken, the same for every reader; and so many epochs are known.
KEEP_NAMES: Final = 500
#: It remembers so many processes that left: a record of an older one counts as external (only positions matter there).
KEEP_LEFT: Final = 500


class Fold(LedgerView):
    """The snapshots and the processes of a ledger, as far as it was read."""

    def __init__(self, *, history: bool) -> None:
        super().__init__()
        self._history = history
        self.start = 0  # what stood below was removed
        self._names: OrderedDict[tuple[str, int], None] = OrderedDict()  # the latest that are taken (R1)

    def _trigger(self, offset: int, record: Trigger) -> None:
        key = (record.id, record.attempt)
        if key in self._names:
            return  # the first Trigger of an (id, attempt) is the snapshot; later ones are no epochs
        self._names[key] = None
        if len(self._names) > KEEP_NAMES:
            self._names.popitem(last=False)
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
            left=frozenset(view.process for view in in_scope if view.left is not None),
            expected=self.inputs_of(hellos),
            apps=self.topics_of(hellos),
            # Where a changelog is the input of another app, the app of the table would wait in its next recovery for
            # what a marker's offset does not hold.
            markers=frozenset(record.marker_topics) - self.changelogs(),
            unread=self.unread(record.apps),
        )
        self.by_id[key] = self.latest_of[record.id] = epoch
        self.snapshots[epoch] = self.open[epoch] = snapshot
        if (refusal := self._refusal(record.apps, in_scope)) is not None:
            self._fail(offset, snapshot, refusal)
            return
        self.highest_epoch = epoch
        self._epochs[epoch] = None
        if len(self._epochs) > KEEP_NAMES and not self._history:
            self._epochs.popitem(last=False)
        if (outdated := self._outdated(snapshot, hellos)) is not None:
            self._fail(offset, snapshot, outdated)

    def _refusal(self, apps: tuple[str, ...], in_scope: Iterable[ProcessView]) -> Failure | None:
        """Return the failure of a snapshot for which nobody cuts."""
        if self.loss:
            return Failure(code=LEDGER_CUT_SHORT, reason=self.loss)
        if self.paused:
            return Failure(code="paused", reason="snapshots are paused in this namespace")
        if self.restores.open is not None and self.restores.open.concerns(apps):
            return being_restored(self.restores.open)
        return next((runs_without(view) for view in in_scope if self.goes_on_without(view)), None)

    def _outdated(self, snapshot: SnapshotView, hellos: list[ProcessView]) -> Failure | None:
        """Return the failure of a snapshot whose trigger, or a process of it, knows what is not so any more."""
        if 0 <= snapshot.trigger.asked_at <= self.left_at:  # R8: its last records may lie behind the log ends
            last = next((p for p, view in self.processes.items() if view.left == self.left_at), NOBODY)
            reason = f"process {last} left while the snapshot was being requested: where its records end is unknown"
            return Failure(code="process-lost", reason=reason, culprit=f"process {last}")
        return recreated_since(hellos) or self._cut_stopped(snapshot)

    def _cut_stopped(self, snapshot: SnapshotView) -> Failure | None:
        """Take the cuts of apps that do not run from the trigger (R10): who starts later is born red, and begins at
        these positions. Since its author looked none of them has run, or it would have left since."""
        stated = {item.app: item for item in snapshot.trigger.stopped}
        for app in (view.hello.app for view in self.stopped(snapshot.trigger.apps)):
            item = stated.get(app, StoppedApp(app=app))
            inputs = {(app, TopicPartition(p.topic, p.partition)) for p in item.positions}
            if app not in stated or not {it for it in snapshot.expected if it[0] == app} <= inputs:
                reason = f"app {app} stopped, or got inputs, while the snapshot was being requested"
                return Failure(code=APP_STOPPED, reason=reason, culprit=f"app {app}")
            snapshot.stopped += (stopped_part(snapshot.epoch, item),)
        return None

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
        failure = unstamped_in_flight(snapshot, self.processes) or alignment.in_flight(self, snapshot)
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
        snapshot.forget()
        decided = [epoch for epoch in self.snapshots if epoch not in self.open]
        for epoch in decided[:-KEEP_DECIDED]:
            trigger = self.snapshots.pop(epoch).trigger
            del self.by_id[trigger.id, trigger.attempt]
            if self.latest_of[trigger.id] == epoch:
                del self.latest_of[trigger.id]

    # -- processes -------------------------------------------------------------------------------------------

    def _hello(self, offset: int, record: Hello) -> None:
        if any((v.hello.n, v.hello.app) == (record.n, record.app) for v in self.processes.values()):
            return  # a copy, by another producer
        self.restores.joined(offset, record, self.processes)
        self.processes[offset] = ProcessView(process=offset, hello=record)
        if record.was != NOBODY:
            self._came_back(offset, record.was)

    def _assigned(self, offset: int, record: Assigned) -> None:
        view = self.processes.get(record.process)
        if view is None or view.left is not None or record.n <= view.assigned_n:
            return  # the last: a copy, or overtaken by a later one
        app = view.hello.app
        view.assigned, view.assigned_n, view.member = offset, record.n, record.member
        nobody = (UNKNOWN,) if self.start > 0 else ()  # a part of the ledger is gone
        mine = set()
        for tp in (*record.inputs, *record.changelogs):
            readers = self.readers.get((app, tp), nobody)
            last = readers[-1] if readers else UNKNOWN
            late = record.generation < last.generation and record.process != last.process
            if late and self.is_alive(last.process):
                continue  # a process that wakes up late does not read it any more, whatever it reports
            self.readers[app, tp] = add_reader(readers, Reader(record.process, offset, record.generation))
            mine.add(tp)
        view.inputs = tuple([tp for tp in record.inputs if tp in mine])
        self._moved(offset, view)

    def _moved(self, offset: int, view: ProcessView) -> None:
        """Fail what is open while inputs are assigned to a process (R9): another one may have been asked for a cut."""
        for snapshot in list(self.open.values()):
            if view.inputs and view.hello.app in snapshot.apps:
                self._fail(offset, snapshot, input_moved(view, view.inputs))

    def _bye(self, offset: int, record: Bye) -> None:
        """Let a process leave, or run on without taking part (R15): then it may have mixed whatever was not captured
        before."""
        view = self.processes.get(record.process)
        left_in_order = view is not None and view.left is not None and not (view.dead or view.goes_on)
        if view is None or (record.goes_on and (left_in_order or view.goes_on)):
            return  # a copy of what it said
        if record.goes_on or view.goes_on:
            view.went_on = offset
        view.goes_on, view.why = record.goes_on, record.reason
        if record.goes_on:
            failure = runs_without(view)
            for snapshot in list(self.snapshots.values()):
                if snapshot.captured_at is not None and snapshot.captured_at >= record.since:
                    snapshot.contaminated = failure.reason
                self._fail(offset, snapshot, failure)
        self._leave(offset, record.process, dead=False)

    def _leave(self, offset: int, process: int, *, dead: bool) -> None:
        view = self.processes.get(process)
        if view is None or view.left is not None:
            return
        self.left_at = view.left = offset
        view.dead = dead
        for snapshot in list(self.open.values()):
            if process in snapshot.required - snapshot.reports.keys():
                # R12: nobody reports for somebody else.
                how = "was lost" if dead else view.why or "stopped"
                failure = Failure(
                    code="process-lost",
                    reason=f"{view.name} {how} before it had reported",
                    culprit=f"process {process}",
                )
                self._fail(offset, snapshot, failure)
        if not self._history:
            stands = self.last_of_stopped() | {v.process for v in self.processes.values() if v.goes_on}
            left = [view.process for view in self.processes.values() if view.left is not None]
            for old in left[:-KEEP_LEFT]:
                if old not in stands:
                    del self.processes[old]

    def _came_back(self, offset: int, process: int) -> None:
        """Note a process that was taken for dead, and goes on under another id with what it had under way."""
        what = f"process {process} was declared dead but continued under that identity"
        failure = Failure(code="contaminated", reason=what, culprit=f"process {process}")
        for snapshot in [it for it in self.snapshots.values() if process in it.left]:
            snapshot.contaminated = what
            self._fail(offset, snapshot, failure)

    def _tail_lost(self, offset: int, record: TailLost) -> None:
        """Refuse this ledger from here on: its numbers are assigned once more, and snapshots that were captured since
        may have them twice (R11)."""
        if self.lost_from is None or record.since < self.lost_from:
            self.lost_from = record.since
        failure = Failure(code=LEDGER_CUT_SHORT, reason=self.loss)
        for snapshot in list(self.snapshots.values()):
            if snapshot.captured_at is not None and snapshot.captured_at >= self.lost_from:
                snapshot.contaminated = f"{LEDGER_CUT_SHORT}: {self.loss}"
            self._fail(offset, snapshot, failure)

    # -- what operators ask for -------------------------------------------------------------------------------

    def _retire(self, offset: int, app: str) -> None:
        if app not in {view.hello.app for view in self.living()} | self.retired_apps():
            self.retired[app] = offset

    def _pause(self, offset: int, *, paused: bool) -> None:
        self.paused_at = offset if paused else None
        for snapshot in list(self.open.values()) if paused else ():
            self._fail(offset, snapshot, Failure(code="paused", reason="snapshots were paused meanwhile"))

    def _restore(self, offset: int, record: Restore) -> None:
        """Fail the snapshots of apps that are being restored; processes that ran before the commit point have left."""
        was = self.restores.open
        if self.loss and was is not None and (record.plan != was.plan or record.stage == "aborted"):
            return  # that it is appending may be among what is lost: it can only be finished
        if not self.restores.apply(offset, record):
            return
        view = self.restores.views[record.plan]
        if was is not view:
            for snapshot in list(self.open.values()):
                if view.concerns(tuple(snapshot.apps)):
                    self._fail(offset, snapshot, being_restored(view))
        over = not view.open
        for process in list(self.living()):
            if process.hello.mode == RESTORE:
                gone = over or process.process < view.author
            else:
                gone = view.stage == "done" and process.hello.app in view.apps
            if gone:
                self._leave(offset, process.process, dead=True)


def being_restored(view: RestoreView) -> Failure:
    """Return the failure of snapshots of apps that are being restored."""
    apps, by = ", ".join(view.apps), f" by {view.begun.who}" if view.begun.who else ""
    return Failure(
        code=RESTORING,
        reason=f"{view} is being restored{by}: no snapshot of {apps} before it is done",
        culprit=f"plan {view.plan}",
    )
