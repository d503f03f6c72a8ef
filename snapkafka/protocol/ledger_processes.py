"""The fold of the ledger, part two: processes that join, get inputs, leave and come back, and what operators ask for
(R9, R11, R12, R15).

The latest `Assigned` names the reader of an input (`readers`).
"""

from __future__ import annotations

from typing import Final

from .ledger_snapshots import SnapshotFold, being_restored, cut_short, input_moved, runs_without
from .readers import UNKNOWN, Reader, add_reader
from .records import (
    LEDGER_CUT_SHORT,
    NOBODY,
    RESTORE,
    Assigned,
    Bye,
    Hello,
    Restore,
    TailLost,
)
from .snapshots import Failure, ProcessView

#: A process that only takes part remembers so many processes that left: a record of an older one counts as external
#: (only positions matter there).
KEEP_LEFT: Final = 500


class ProcessFold(SnapshotFold):
    """The processes of a ledger, and their snapshots, as far as it was read.

    Args:
        history: see `SnapshotFold`.
        start: first offset of the ledger.
    """

    def __init__(self, *, history: bool, start: int) -> None:
        super().__init__(history=history)
        self._start = start

    def _hello(self, offset: int, record: Hello) -> None:
        if any((v.hello.n, v.hello.app) == (record.n, record.app) for v in self.processes.values()):
            return  # a copy, by another producer
        self.restores.joined(offset, record, self.processes)
        self.processes[offset] = ProcessView(process=offset, hello=record)
        if record.was != NOBODY:
            self._came_back(offset, record.was)
        if self.tails.hides(offset):
            self._hide(offset)

    def _assigned(self, offset: int, record: Assigned) -> None:
        view = self.processes.get(record.process)
        if view is None or view.left is not None or record.n <= view.assigned_n:
            return  # the last: a copy, or overtaken by a later one
        app = view.hello.app
        view.assigned, view.assigned_n, view.member = offset, record.n, record.member
        nobody = (UNKNOWN,) if self._start > 0 or self.tails.upto > 0 else ()  # a part of the ledger is gone
        mine = set()
        for tp in (*record.inputs, *record.changelogs):
            readers = self.readers.get((app, tp), nobody)
            last = readers[-1] if readers else UNKNOWN
            if last.generation > record.generation and self.is_alive(last.process):
                continue  # a process that wakes up late does not read it any more, whatever it reports
            self.readers[app, tp] = add_reader(readers, Reader(record.process, offset, record.generation))
            mine.add(tp)
        view.inputs = tuple([tp for tp in record.inputs if tp in mine])
        self._moved(offset, view)

    def _moved(self, offset: int, view: ProcessView) -> None:
        """Fail what is open while inputs are assigned to a process (R9): who read them has been asked for their cut, or
        this process for another one."""
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
                how = "was lost" if dead else "stopped"
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
        """Note a process that was taken for dead, or that a lost tail has hidden, and goes on under another id with
        what it had under way."""
        hidden = self.tails.hides(process)
        what = f"process {process} was declared dead but continued under that identity"
        if hidden:
            what = f"{LEDGER_CUT_SHORT}: process {process} continued, and the ledger has lost its Hello"
        for snapshot in list(self.snapshots.values()):
            if process in snapshot.left or (hidden and snapshot.epoch > process):
                snapshot.contaminated = what
                self._fail(
                    offset, snapshot, Failure(code="contaminated", reason=what, culprit=f"process {process}")
                )

    def _tail_lost(self, offset: int, record: TailLost) -> None:
        """Note a lost tail: its author was hidden from `since` on, so no snapshot of that time can be proved (R11)."""
        if not self.tails.add(offset, record):
            return
        if record.process != NOBODY:
            return
        self.restores.tail_lost()
        failure = cut_short(record.upto)
        for snapshot in list(self.snapshots.values()):
            if snapshot.captured_at is not None and snapshot.captured_at >= record.since:
                snapshot.contaminated = failure.reason
            self._fail(offset, snapshot, failure)
        self._leave(offset, record.void, dead=True)
        self._hide(offset)

    def _hide(self, offset: int) -> None:
        """End the processes with a number that another one has had: a header with it may be of either."""
        for view in list(self.processes.values()):
            if not view.hidden and self.tails.hides(view.process):
                view.hidden = True
                self._leave(offset, view.process, dead=True)

    # -- what operators ask for -------------------------------------------------------------------------------

    def _retire(self, offset: int, app: str) -> None:
        if app in {view.hello.app for view in self.living()} or app in self.retired_apps():
            return
        self.retired[app] = offset
        for snapshot in list(self.open.values()):
            snapshot.expected = {item for item in snapshot.expected if item[0] != app}
            self._complete(offset, snapshot)

    def _pause(self, offset: int, *, paused: bool) -> None:
        self.paused_at = offset if paused else None
        for snapshot in list(self.open.values()) if paused else ():
            self._fail(offset, snapshot, Failure(code="paused", reason="snapshots were paused meanwhile"))

    def _restore(self, offset: int, record: Restore) -> None:
        """Fail the snapshots of apps that are being restored; processes that ran before the commit point have left."""
        was = self.restores.open
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
        if over and not self._history:
            self.restores.forget()
