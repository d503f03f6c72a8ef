"""The fold of the ledger that decides when a snapshot is captured, the same for every reader (R11).

`LedgerState.apply(offset, record)` is all there is: no clock, no coordinator. All readers that have read the ledger up
to the same offset hold the same state, so none has to be asked, and none has to be alive for a snapshot to complete.

    Trigger ──> capturing ──every expected input cut, every required sender closed──> captured ──Verdict──> completed
                    └──Abort, a required sender lost, an input moved under it───────> failed

The first record stands: a late `Abort` does not undo a capture, a late `Closed` does not fix a failure, and of two
cuts of one input the first counts.

The latest `Assigned` names the owner of an input (`owners`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, assert_never

from . import ownership, unstamped
from .deduplication import Latest, Repeats
from .forking import ForkView
from .ledger_view import LedgerView
from .ownership import Input
from .records import (
    APP_RUNS_WITHOUT,
    CONTAMINATING,
    LEDGER_CUT_SHORT,
    NOBODY,
    RESTORE,
    RESTORING,
    Abort,
    Assigned,
    Bye,
    Checkpoint,
    Closed,
    CutReport,
    Dead,
    Fork,
    Hello,
    LedgerRecord,
    Number,
    Pause,
    Refused,
    Restore,
    Retire,
    Seen,
    SnapshotName,
    TailLost,
    TopicPartition,
    Trigger,
    Verdict,
)
from .restores import RestoreView
from .snapshots import Failure, ProcessView, SnapshotView, Status, Unread, Waiting

if TYPE_CHECKING:
    from .captured_snapshot import Captured

__all__ = ["Failure", "Input", "LedgerState", "ProcessView", "SnapshotView", "Status", "Unread", "Waiting"]

#: A process that only takes part remembers so many decided snapshots, and so many processes that left: a record of an
#: older one counts as external (only positions matter there), and no epoch so old comes as news.
KEEP_DECIDED: Final = 64
KEEP_LEFT: Final = 500
#: So many names of snapshots (id, attempt) are taken, the same for every reader; and so many epochs are known.
KEEP_NAMES: Final = 500


class LedgerState(LedgerView):
    """The fold. Apply every record in the order of the ledger; duplicates and external records are dropped.

    Args:
        history: remember every snapshot, for tools that list them. Without, memory is bounded, whatever the ledger
            holds.
        start: first offset of the ledger. If older records were removed, everything waits for a `Checkpoint`.
    """

    def __init__(self, *, history: bool = True, start: int = 0) -> None:
        super().__init__()
        self._history = history
        if not history:
            self._epochs = Latest(KEEP_NAMES)
        self._names: Latest[tuple[str, int]] = Latest(KEEP_NAMES)  # those that are taken (R1)
        self._repeats = Repeats()
        self._latest_captured: dict[str, int] = {}  # app -> epoch, without a history
        self._start = start
        #: What was read of a ledger whose beginning is gone, until its checkpoint is whole; None: nothing is missing.
        self._held: list[tuple[int, LedgerRecord | None]] | None = [] if start else None
        #: Applies a checkpoint, a record at each step; None: nothing of it is left.
        self._resuming: Iterator[None] | None = None

    # -- feeding ----------------------------------------------------------------------------------------------

    def apply(
        self,
        offset: int,
        record: LedgerRecord | None,
        *,
        refused: LedgerRecord | None = None,
        at_once: int | None = None,
    ) -> bool:
        """Apply the record at `offset`; `None` stands for garbage, which only moves the end.

        Offsets rise but need not be contiguous (a transaction of somebody, a trimmed log).

        Args:
            refused: the content of a record whose signature is refused.
            at_once: with the last chunk of a checkpoint, apply so many of its records; `resume` applies the others.
                None: all of them.

        Returns:
            whether the record took effect: it is neither garbage nor a duplicate, and nothing before it is missing.
        """
        assert offset >= self.end, "the ledger is read in its order"
        self.resume()
        self.end = offset + 1
        if refused is not None:
            self.refusals.refuse(offset, refused)
        if self._held is not None:
            self._held.append((offset, record))
            if isinstance(record, Checkpoint):
                self._begin_to_resume(self._held, record)
                self.resume(at_once)
            return False
        return self._fold(offset, record)

    def _fold(self, offset: int, record: LedgerRecord | None) -> bool:
        if record is None or self._repeats.repeated(
            record.process, record.n, is_alive=self.is_alive(record.process)
        ):
            return False
        self._take(offset, record)
        return True

    @property
    def resuming(self) -> bool:
        """Whether a complete checkpoint was read of which `resume` still has to apply some records."""
        return self._resuming is not None

    def resume(self, at_once: int | None = None) -> None:
        """Apply so many more records of a checkpoint; None: all that are left."""
        if self._resuming is not None:
            deque(islice(self._resuming, at_once), maxlen=0)

    def _take(self, offset: int, record: LedgerRecord) -> None:
        """Apply a record that is neither garbage nor a duplicate."""
        match record:
            case Hello():
                self.restores.joined(offset, record, self.processes)
                self.processes[offset] = ProcessView(process=offset, hello=record, epoch=self.highest_epoch)
                if record.was != NOBODY:
                    self._came_back(offset, record.was)
                if self.tails.hides(offset):
                    self._hide(offset)
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
                snapshot = self.snapshots.get(record.epoch)
                if snapshot is not None and snapshot.open:
                    self._fail(offset, snapshot, failure)
                elif snapshot is not None and snapshot.failure is None and record.code in CONTAMINATING:
                    snapshot.contaminated = record.reason
            case Dead():
                self.refusals.ended(offset, record.dead)
                self._leave(offset, record.dead, dead=True)
            case Refused():
                self.refusals.informed.add(record.hello)
            case Bye():
                self._bye(offset, record)
            case TailLost():
                self._tail_lost(offset, record)
            case Retire():
                self._retire(offset, record.app)
            case Verdict():
                snapshot = self.snapshots.get(record.epoch)
                if snapshot is not None and snapshot.captured_at is not None:
                    snapshot.verdict = record
            case Pause():
                self._pause(offset, paused=record.paused)
            case Restore():
                self._restore(offset, record)
            case Fork():
                if self.fork is None:
                    self.fork = ForkView(record)
                self.fork.apply(record)
            case Checkpoint():
                pass  # for those who start here
            case _:
                assert_never(record)

    @property
    def whole(self) -> bool:
        """Whether nothing is missing. False: the beginning of the ledger was deleted, and no checkpoint stands for it
        yet."""
        return self._held is None

    def _begin_to_resume(self, held: list[tuple[int, LedgerRecord | None]], last: Checkpoint) -> None:
        """Begin to apply a complete checkpoint: the records that it kept, then those read since it was taken."""
        chunks = {
            record.part: record
            for _, record in held
            if isinstance(record, Checkpoint)
            and (record.n - record.part, record.upto) == (last.n - last.part, last.upto)
        }
        if len(chunks) >= last.parts and last.upto >= self._start:
            self._resuming = self._resumed(held, [chunks[part] for part in sorted(chunks)])

    def _resumed(
        self, held: list[tuple[int, LedgerRecord | None]], chunks: Sequence[Checkpoint]
    ) -> Iterator[None]:
        """Apply one record of a checkpoint at each step; after the last one nothing is missing."""
        last = chunks[-1]
        for kept in (kept for chunk in chunks for kept in chunk.kept):
            yield
            self._fold(kept.offset, kept.record)
        self._names = Latest(
            KEEP_NAMES, ((name.id, name.attempt) for chunk in chunks for name in chunk.names)
        )
        self._repeats = Repeats(
            (seen for chunk in chunks for seen in chunk.seen),
            (other for chunk in chunks for other in chunk.others),
        )
        self.highest_epoch = max(self.highest_epoch, last.highest_epoch)
        for offset, record in held:
            if offset >= last.upto:
                yield
                self._fold(offset, record)
        self._held = self._resuming = None

    def taken(self) -> tuple[list[SnapshotName], list[Seen], list[Number]]:
        """Return the names and numbers that are taken, for a checkpoint."""
        names = [SnapshotName(id=id_, attempt=attempt) for id_, attempt in self._names]
        return (names, *self._repeats.kept())

    # -- one record each --------------------------------------------------------------------------------------

    def _assigned(self, offset: int, record: Assigned) -> None:
        view = self.processes.get(record.process)
        if view is None or view.left is not None:
            return
        app = view.hello.app
        view.assigned, view.member = offset, record.member
        mine = []
        for tp in (*record.inputs, *record.changelogs):
            last = self.owners.get((app, tp))
            if last is not None and last.generation > record.generation and self.is_alive(last.process):
                continue  # who wakes up late is not the owner any more, whatever it says
            self.owners[app, tp] = ownership.next_owner(
                last,
                offset=offset,
                process=record.process,
                generation=record.generation,
                red=view.epoch,
                unknown=self._start > 0 or self.tails.upto > 0,  # a part of the ledger is gone
            )
            mine.append(tp)
        view.inputs = tuple(tp for tp in record.inputs if tp in mine)
        for snapshot in list(self.open.values()):
            self._moved_on(offset, snapshot, app, view.inputs)

    def _moved_on(
        self, offset: int, snapshot: SnapshotView, app: str, inputs: Iterable[TopicPartition]
    ) -> None:
        """Note inputs that were assigned to a new reader: some are named for the first time, for some it is too late
        to be cut."""
        if app not in snapshot.apps:
            return
        for tp in inputs:
            snapshot.expected.add((app, tp))
            if (app, tp) not in snapshot.claims and self.owners[app, tp].before >= snapshot.epoch:
                reason = (
                    f"input {tp} of app {app} was read by a process that had turned red, and moved on uncut"
                )
                self._fail(offset, snapshot, Failure(code="input-moved", reason=reason, culprit=str(tp)))
                return

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
            self._fail(offset, snapshot, _cut_short(self.tails.upto))
            return
        if self.paused:
            reason = "snapshots are paused in this namespace"
            self._fail(offset, snapshot, Failure(code="paused", reason=reason))
            return
        if self.restores.open is not None and self.restores.open.concerns(record.apps):
            self._fail(offset, snapshot, _restoring(self.restores.open))
            return
        if without := [view for view in in_scope if self.goes_on_without(view)]:
            self._fail(offset, snapshot, _runs_without(without[0]))
            return
        self.highest_epoch = epoch
        self._epochs.add(epoch)

    def _report(self, offset: int, record: CutReport) -> None:
        view = self.processes.get(record.process)
        if view is None or view.left is not None:
            return
        app = record.app or view.hello.app
        if record.app and any(v.hello.app == app and v.process <= record.assigned for v in self.living()):
            return  # its author takes an app for stopped that runs: it cannot read the `Hello` of a later release
        inputs = {TopicPartition(p.topic, p.partition) for p in record.positions}
        if not record.supplement:
            view.epoch = max(view.epoch, record.epoch)
            ownership.reads_red(self.owners, record, app, inputs)
            self._cut_beside(record, app)
        moved = ownership.moved(self.owners, record, app, inputs)
        if moved and record.supplement:
            return  # R9: void. Who has the input now cuts it itself, or it was too late
        passed = {} if record.supplement else ownership.came_and_went(self.owners, record, app)
        served = [s for e, s in self.open.items() if record.previous < e <= record.epoch]
        for snapshot in [s for s in served if app in s.apps]:
            lost = {
                tp for tp in moved if not ownership.gone(self.owners[app, tp], record, before=snapshot.epoch)
            } | {tp for tp, since in passed.items() if snapshot.claims.get((app, tp), since) >= since}
            if lost:
                # R9: inputs moved away (or even came back, or came and went) before the report landed; it is void.
                reason = f"input {min(lost)} moved while {view.name} was reporting its cut"
                failure = Failure(code="input-moved", reason=reason, culprit=str(min(lost)))
                self._fail(offset, snapshot, failure)
            elif record.supplement or record.process not in snapshot.reports:
                if record.supplement:
                    snapshot.supplements[offset] = record
                else:
                    snapshot.reports[record.process] = (offset, record)
                tps = {*inputs, *record.changelogs}
                self._claim(
                    offset, snapshot, app, record, tps - ownership.moved(self.owners, record, app, tps)
                )
                self._complete(offset, snapshot)

    def _cut_beside(self, record: CutReport, app: str) -> None:
        """Note a process that turned red for snapshots of other apps, decided ones too, before it took in any red."""
        for epoch in reversed(self.snapshots):
            if epoch <= record.previous:
                break
            if epoch <= record.epoch and app not in self.snapshots[epoch].apps:
                self.snapshots[epoch].beside.add(record.process)

    def _claim(
        self, offset: int, snapshot: SnapshotView, app: str, record: CutReport, tps: Iterable[TopicPartition]
    ) -> None:
        """Let a report claim these inputs, unless another came first or it comes too late (R9, R11)."""
        for item in ((app, tp) for tp in tps):
            owner = self.owners.get(item)
            if item not in snapshot.claims and ownership.before(owner, record.process) < snapshot.epoch:
                snapshot.claims[item] = offset
                snapshot.earlier[item] = ownership.earlier(owner, record.process)

    def _close(self, offset: int, record: Closed) -> None:
        for snapshot in list(self.open.values()):
            report = snapshot.reports.get(record.process)
            # R4: a report counts only with its Closed, and a Closed only with the report that it names.
            if report is not None and report[0] == record.report and record.process not in snapshot.closed:
                snapshot.closed[record.process] = (offset, record)
            elif snapshot.supplements.get(record.report, _NO_REPORT).process == record.process:
                snapshot.supplements_closed.setdefault(record.report, (offset, record))
            else:
                continue
            for app, topics in snapshot.apps.items():
                # a partition that nobody had named: white lies in it, so somebody has to cut it
                snapshot.expected |= {
                    (app, TopicPartition(sent.topic, sent.partition))
                    for sent in record.sent
                    if sent.topic in topics
                    and (sent.white_end or sent.landed_end or sent.bare_end)
                    and (app, (sent.topic, sent.partition)) not in snapshot.expected
                }
            self._complete(offset, snapshot)

    def _bye(self, offset: int, record: Bye) -> None:
        """Let a process leave, or run on without taking part (R15): then it may have mixed whatever was not captured
        before."""
        view = self.processes.get(record.process)
        left_in_order = view is not None and view.left is not None and not (view.dead or view.goes_on)
        if view is None or (record.goes_on and left_in_order):
            return  # a copy of what it said before it left
        view.goes_on, view.why = record.goes_on, record.reason
        if record.goes_on:
            failure = _runs_without(view)
            for snapshot in list(self.snapshots.values()):
                if snapshot.captured_at is not None and snapshot.captured_at >= record.since:
                    snapshot.contaminated = failure.reason
                self._fail(offset, snapshot, failure)
        self._leave(offset, record.process, dead=False)

    def _leave(self, offset: int, process: int, *, dead: bool) -> None:
        view = self.processes.get(process)
        if view is None or view.left is not None:
            return
        view.left, view.dead = offset, dead
        self._repeats.left(process)
        for snapshot in list(self.open.values()):
            unclosed = snapshot.supplements.keys() - snapshot.supplements_closed.keys()
            if process in snapshot.required - snapshot.closed.keys() or any(
                snapshot.supplements[at].process == process and at in snapshot.claims.values()
                for at in unclosed
            ):
                # R12: nobody closes for somebody else.
                how = "was lost" if dead else "stopped"
                failure = Failure(
                    code="process-lost",
                    reason=f"{view.name} {how} before it closed",
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
        self.tails.add(offset, record)
        if record.process != NOBODY:
            return
        self.restores.tail_lost()
        failure = _cut_short(record.upto)
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

    def _retire(self, offset: int, app: str) -> None:
        self.retired[app] = offset
        alive = {view.hello.app for view in self.living()}
        for snapshot in list(self.open.values()):
            if app not in alive:
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
                    self._fail(offset, snapshot, _restoring(view))
        over = not view.open
        for process in list(self.living()):
            if process.hello.mode == RESTORE:
                gone = over or process.process < view.author
            else:
                gone = record.stage == "ready" and process.hello.app in view.apps and process.process < offset
            if gone:
                self._leave(offset, process.process, dead=True)
        if over and not self._history:
            self.restores.forget()

    # -- deciding ---------------------------------------------------------------------------------------------

    def _complete(self, offset: int, snapshot: SnapshotView) -> None:
        if not snapshot.open or not snapshot.required <= snapshot.closed.keys():
            return
        if not snapshot.expected <= snapshot.counted():
            return
        if (failure := unstamped.in_flight(snapshot, self.processes)) is not None:
            self._fail(offset, snapshot, failure)
        else:
            snapshot.captured_at = offset
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

    # -- what was captured -----------------------------------------------------------------------------------------

    def captured(self, epoch: int) -> Captured:
        """Return the vector of offsets of a captured snapshot (see `captured_snapshot.gather`)."""
        from .captured_snapshot import gather  # who only takes part never asks

        return gather(self, epoch)

    def restored_starts(self, app: str) -> dict[TopicPartition, int]:
        """Return where to start the restored inputs of `app` if its group has lost its committed offsets.

        That is where the restore has put the lowest of its agents, or where the latest captured snapshot since has
        found them: all below that is processed. An input that was never restored is not in it.
        """
        starts = self.restores.starts(app)
        found = {tp: offset for tp, (offset, _) in starts.items()}
        unseen = dict(starts)
        for epoch, view in sorted(self.snapshots.items(), reverse=True):
            if not any(since < epoch for _, since in unseen.values()):
                break
            if view.captured_at is None or view.forgotten or app not in view.apps:
                continue
            for cut in self.captured(epoch).inputs:
                tp = TopicPartition(cut.topic, cut.partition)
                if cut.app == app and tp in unseen and epoch > unseen[tp][1]:
                    found[tp] = max(cut.position, unseen.pop(tp)[0])
        return found


def _runs_without(view: ProcessView) -> Failure:
    return Failure(
        code=APP_RUNS_WITHOUT,
        reason=f"{view.withdrawal}: restart it, its log has the error",
        culprit=f"app {view.hello.app}",
    )


def _cut_short(upto: int) -> Failure:
    return Failure(
        code=LEDGER_CUT_SHORT,
        reason=f"{LEDGER_CUT_SHORT}: acknowledged records below offset {upto} of the ledger are lost",
    )


def _restoring(view: RestoreView) -> Failure:
    apps = ", ".join(view.apps)
    return Failure(
        code=RESTORING,
        reason=f"{view} is being restored: no snapshot of {apps} before it is done",
        culprit=f"plan {view.plan}",
    )


_NO_REPORT = CutReport(process=NOBODY, n=0, epoch=0, previous=0, heard="ledger", assigned=-1, positions=())
