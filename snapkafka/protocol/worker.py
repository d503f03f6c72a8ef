"""One process in the protocol: events in, actions out, nothing else.

Theory of operation ------------------- Chandy and Lamport (1985) give a process two rules. Each of their clauses has
its counterpart here.

    1985                                            here
    a marker comes, and q has not recorded          `_met`: a believed epoch above mine, whatever brings it     R1, R2
    q records its state                             `_cut`: one instant, positions instead of copies            R3, R4
    one marker along each channel, before           `closing.ask_markers`; what white events still send after
        any further message                             it has its own colour (`work`)                          R5, R7
    a channel: what came after q recorded and       a range of offsets, from q's position to where the
        before the marker                               sender's white ends                                     R8
    somebody collects what was recorded             `CutReport` and `Closed`, in a ledger that all fold alike   R11

They needed no more, as their processes neither join nor leave nor fail, nor pass inputs on to each other. This machine
also answers: which process reads an input and which one cuts it (`moves`, R9 and R10), the identity of a process
(R11), and for which processes nobody waits any more (R12).

A process is always in one of three conditions:

    not joined ──own Hello read──> white or red for what the ledger holds ──own Dead read──> not joined again
                                          │
                    meets a believed epoch: the cut (one instant, R3), then for each open cut:
                                        │
       report appended ─ white events end ─ markers asked ─ report read back, sends and markers acknowledged ─> Closed

Several cuts can be open at once; each closes by itself. The decisions, in their order:

* *May I believe this epoch?* Only if the ledger holds a `Trigger` just below it (R2). A record with a higher epoch
  than ours is not taken in before the ledger has been read up to there: `ReadLedgerTo`.
* *Must I cut?* If the epoch is believed and above mine. `hear` can switch off a source of epochs, for tests and
  proofs; the rule "take in nothing red while white" holds with any of them.
* *May I close?* `closing.ready`.
* *Whose inputs do I cut?* Mine at my own cut; inputs that were assigned to me uncut after it, where they start
  (`moves`, R10); those of an app that does not run, if my id is the smallest.
* *Is my report true?* If the process did anything without this machine (R15), or has work in flight from an earlier
  identity (`lives`), the snapshot is aborted by name; nothing of it stands in the way of the next one.

The hot path of a service, with plain arguments, is in `work`; `handle` is for all less frequent events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from . import closing, reassignment
from .actions import (
    Action,
    AppendHello,
    AppendToLedger,
    AskEnds,
    ReadLedgerTo,
    StartTimer,
    TurnedRed,
)
from .colours import Colours
from .cut import take_cut
from .events import (
    AssignedInput,
    CameBack,
    ChannelEnded,
    CheckpointGoesOn,
    CutTimed,
    EndsSeen,
    Event,
    InputsAdded,
    InputsAssigned,
    InputsRevoked,
    Joined,
    LedgerBegins,
    LedgerCutShort,
    LedgerRead,
    LedgerRecreated,
    MarkerFailed,
    MarkerMet,
    MarkerSent,
    RanWithout,
    RecordMet,
    StopAsked,
    StoppedSeen,
    TimerExpired,
    TriggerAppended,
    WentAbsent,
)
from .hot_path import Work
from .ledger_state import LedgerState, SnapshotView
from .records import (
    APP_RUNS_WITHOUT,
    NOBODY,
    Assigned,
    Bye,
    Closed,
    CutReport,
    Dead,
    Heard,
    Hello,
    LedgerRecord,
    Refused,
    Restore,
    TailLost,
    TopicPartition,
    Trigger,
)
from .refusals import KEEP_REFUSED
from .restores import Rule

#: By what a process may learn of a snapshot.
HEAR_ALL = frozenset({"ledger", "markers", "headers"})


class WorkerProtocol(Work):
    """The machine: feed it events, do its actions in their order, and feed back the results.

    Args:
        hear: the sources ("ledger", "markers", "headers") from which it may learn of a snapshot.
        classic: red sends wait until the markers are out, as in 1985: then markers alone keep the cut safe.
    """

    def __init__(self, *, hear: frozenset[str] = HEAR_ALL, classic: bool = False) -> None:
        assert hear and hear <= HEAR_ALL, "hear is a part of ledger, markers, headers"
        super().__init__(classic=classic)
        self.hear = hear
        self.process: int | None = None
        self.absent = False
        self.inputs = reassignment.Inputs()
        self.stood_down: int | None = None  # the id that it had
        self.withdrawn = ""  # why it takes no part: nobody accepts it, or it nobody
        self._stood_down_why: str | None = None  # why it has stood down
        self._hello_n: int | None = None
        self._strayed = False  # was it absent since the last of its records that it has read in the ledger?
        self._sent_by: dict[int, int] = {}  # n of such a record -> how much it had sent when it wrote that
        self._known_sent = 0  # of the last one that it has read
        self._uncounted = False  # has it written to its tables before it had an id?
        self._own_triggers: set[int] = set()
        self._losses: dict[int, TailLost] = {}  # n -> of tails, that it has not read back
        self._refused: set[int] = set()  # the processes that it has informed
        self._n = 0

    def handle(self, event: Event) -> list[Action]:
        """Take in one event; return the actions that it calls for, in their order."""
        match event:
            case LedgerRead():
                return self._ledger_read(event)
            case CheckpointGoesOn():
                self.ledger.resume(event.at_once)
                return self._drop_and_advance() if self.ledger.whole else []
            case TriggerAppended():
                self._own_triggers.add(event.n)
                return []
            case RecordMet():
                return self._met(event.epoch, "header", may="headers" in self.hear)
            case MarkerMet():
                return self._met(event.epoch, "marker", may="markers" in self.hear)
            case ChannelEnded():
                self.open.take(event)
                return []
            case MarkerSent() | EndsSeen() | CutTimed():
                self.open.take(event)
                return self._advance()
            case MarkerFailed():
                self.colours.marker_failed(event.tp, event.seq)
                what = f"the marker for {event.tp} could not be sent: {event.reason}"
                return self._abort_open(event.epoch - 1, event.epoch, "marker-failed", what, str(event.tp))
            case TimerExpired():
                return self._timer_expired(event.epoch)
            case InputsAssigned():
                return self._inputs_assigned(event)
            case InputsAdded():
                self.inputs.add(event.inputs)
                return [] if self.process is None else self._announce()
            case InputsRevoked():
                self.positions.take()
                self.inputs.take()
                return []
            case StoppedSeen():
                return self._stopped_seen(event)
            case Joined():
                self._hello_n = event.hello.n
                return []
            case RanWithout():
                return self._ran_without(event.since)
            case StopAsked():
                me = self.stood_down if self.process is None else self.process
                return [] if me is None else [AppendToLedger(record=Bye(process=me, n=self._next_n()))]
            case LedgerRecreated():
                self._other_ledger()
                return self._new_life(recreated=True)
            case LedgerCutShort():
                return self._ledger_cut_short(event)
            case LedgerBegins():
                if event.start <= self.ledger.end:
                    return []
                self._other_ledger(event.start)
                return [] if self.process is None else self._new_life()
            case WentAbsent() | CameBack():
                self.absent = isinstance(event, WentAbsent)
                self._strayed = True
                return [] if self.process is None else self._contaminated()
            case _:
                assert_never(event)

    def _ledger_read(self, event: LedgerRead) -> list[Action]:
        news = self.ledger.apply(event.offset, event.record, refused=event.refused, at_once=event.at_once)
        if event.refused is not None and self.process is not None:
            return [*self._refuses(event.refused), *self._drop_and_advance()]
        if not self.ledger.whole:
            return []  # ours are written after the checkpoint, so none of them is among these
        if news and self.process is not None and event.record is not None:
            self._alive_in(event.record)
        match event.record:
            case Trigger() as trigger:
                own = trigger.n in self._own_triggers
                self._own_triggers.discard(trigger.n)
                if self.process is not None and self.ledger.is_epoch(event.offset + 1):
                    return self._triggered(event.offset + 1, own=own)
                if news and self.ledger.tails.hides(event.offset):
                    return self._pass_the_lost()
            case _ if not news:
                pass  # also of our own records the first one stands
            case Hello() as hello if hello.n == self._hello_n and not self.ledger.is_alive(event.offset):
                return self._join_behind_the_lost(event.offset, hello.was)
            case Hello() as hello if hello.n == self._hello_n:
                return self._recognised(event.offset)
            case Assigned() as assigned if self.inputs.is_announced_by(assigned, self.process):
                return self._assigned(event.offset)
            case CutReport() as report if report.process == self.process:
                self.open.reported(report.n, event.offset)
            case Dead() as dead if dead.dead == self.process:
                return self._new_life()
            case Restore() | TailLost() if self._has_left():
                return self._new_life()
            case TailLost() as loss:
                self._losses.pop(loss.n, None)
            case Refused() as note if note.hello == self.process:
                return self._withdraw(f"process {note.process} refused its Hello for its signature")
            case _:
                pass
        return self._drop_and_advance()

    def _drop_and_advance(self) -> list[Action]:
        self._drop_decided()
        return self._advance()

    def _refuses(self, record: LedgerRecord) -> list[Action]:
        """Handle a record that readers with its key accept and this process does not (R11). One of the two must take
        no part."""
        if isinstance(record, Hello):
            return self._inform_refused()
        reports = isinstance(record, CutReport | Closed) and record.process not in self.ledger.processes
        if reports and not any(view.process != self.process for view in self.ledger.participants()):
            return self._withdraw(f"reports of process {record.process} are signed with a key that it lacks")
        return []

    def _inform_refused(self) -> list[Action]:
        """Inform the authors of refused `Hello`s; it is unknown whether others accept them. Each is informed once, and
        only so many: anyone who may write to the ledger can write more."""
        refused = [process for process in self.ledger.refusals.uninformed() if process not in self._refused]
        refused = refused[: KEEP_REFUSED - len(self._refused)]
        self._refused.update(refused)
        return [
            AppendToLedger(record=Refused(process=self._me, n=self._next_n(), hello=process))
            for process in refused
        ]

    def _withdraw(self, why: str) -> list[Action]:
        """Withdraw for good (R15), and write that where a reader may accept it."""
        self.withdrawn = f"has a ledger key that the others do not share ({why})"
        return self.stand_down()

    def _has_left(self) -> bool:
        """Return whether a record has ended this identity: a restore of our app, or a lost tail with our number."""
        return self.process is not None and not self.ledger.is_alive(self.process)

    # -- hearing of a snapshot (R1, R2) -----------------------------------------------------------------------

    def _triggered(self, epoch: int, *, own: bool) -> list[Action]:
        """Handle a snapshot reported by the ledger: the fast path, and the only one for the process that triggered
        it."""
        if self.absent:
            return self._contaminated()
        actions: list[Action] = []
        if own or "ledger" in self.hear:
            actions = self._cut(epoch, "trigger" if own else "ledger")
        asked = self.open.ask(reassignment.ask_stopped(self.ledger, epoch, self.process))
        return [*actions, *asked, _timer(self.ledger.snapshots[epoch])]

    def _met(self, epoch: int, heard: Heard, *, may: bool) -> list[Action]:
        """Handle a red record that is about to be taken in (R2): read the ledger up to its trigger first, then believe
        it or not. A process that is absent takes it in at once (R15), and does not come back before the ledger is read
        up to there."""
        if self.process is None or epoch <= self.colours.epoch:
            return []
        if epoch > self.ledger.end:
            return [ReadLedgerTo(offset=epoch - 1)] if may or "ledger" in self.hear else []
        return self._cut(epoch, heard) if may and self.ledger.is_epoch(epoch) else []

    # -- the cut (R3, R4) -------------------------------------------------------------------------------------

    def _cut(self, epoch: int, heard: Heard) -> list[Action]:
        """Turn red here and now (R3). The report is in flight, and nothing waits for it (R4)."""
        if self.process is None or epoch <= self.colours.epoch:
            return []
        previous = self.colours.epoch
        self.earlier.settle()
        cut, report = take_cut(
            self.colours,
            self.positions,
            process=self.process,
            n=self._next_n(),
            epoch=epoch,
            heard=heard,
            assigned=self.inputs.assigned,
            changelogs=self.earlier.ends(self.inputs.tables),
        )
        turned = TurnedRed(epoch=epoch, previous=previous, heard=heard)
        if not self.open.wants(cut, self.ledger.open.keys()):
            self._rest()
            return [turned]
        if self.earlier.busy:
            what = f"{self._name} still has work under way from before it was declared dead"
            return [turned, *self._abort_open(previous, epoch, "contaminated", what, self._name)]
        self.open.cuts[epoch] = cut
        # None: decided, and forgotten; the cut serves an older one.
        snapshot = self.ledger.snapshots.get(epoch)
        if snapshot is not None and self.marks:
            cut.marker_topics = snapshot.markers
        # A marker ends what counts of sends whose result is unknown; where none goes, the end of the log does.
        unsettled = (tp for tp in self.colours.ask_ends() if tp.topic not in cut.marker_topics)
        cut.unsettled = frozenset(unsettled)
        written = {TopicPartition(end.topic, end.partition) for end in cut.changelogs}
        cut.uncounted = frozenset(written if self._uncounted else written & self.earlier.unknown)
        tps = cut.asks(self.positions.inputs())
        asked = [AskEnds(report=report.n, tps=tps)] if tps else []
        return [turned, *closing.ask_markers(cut, self.colours), AppendToLedger(record=report), *asked]

    # -- closing (R7) -----------------------------------------------------------------------------------------

    def _advance(self) -> list[Action]:
        """Return the actions that became possible: markers that can be sent, cuts that can be closed."""
        if self.process is None:
            return []
        actions = self.open.advance(self.colours, process=self.process, next_n=self._next_n)
        if actions:
            self._rest()
        again = (item.due(self.ledger) for item in self.open.supplements)
        return [*actions, *(asked for asked in again if asked is not None)]

    def _drop_decided(self) -> None:
        """Drop decided snapshots: an aborted one leaves no memory behind; the process simply stays red (R4)."""
        self.open.drop_decided(self.ledger.open.keys())
        self._rest()

    def _rest(self) -> None:
        """Merge the colours before the lowest open cut, or before the present one if none is open: no cut asks for
        them any more."""
        if self.open.cuts:
            self.colours.forget_below(min(self.open.cuts))
        else:
            self.colours.forget()

    # -- inputs that come and go (R9, R10) --------------------------------------------------------------------

    def _inputs_assigned(self, event: InputsAssigned) -> list[Action]:
        if not self.inputs.taken:
            self.positions.take()
        self.inputs.assign(event)
        return [] if self.process is None else self._announce()

    def _announce(self) -> list[Action]:
        return [AppendToLedger(record=self.inputs.announce(self._me, self._next_n()))]

    def _assigned(self, offset: int) -> list[Action]:
        """Take over the inputs (R9): the ledger is read up to our `Assigned`, so we turn as red as any of them was."""
        if self.inputs.announced(offset):
            self.earlier.recovered()
        if self.inputs.taken:
            return []  # it comes too late: they are not ours to read any more
        app = self.ledger.app_of(self._me)
        ours = self.inputs.ours(self.ledger, self._me)
        early = self.positions.assign(ours, self._rules(app, ours), self.inputs.kept)
        tps = self.positions.inputs()
        red = reassignment.red_before(self.ledger, app, tps)
        actions = self._cut(red, "assigned") if red else []
        came = set(tps) - self.inputs.kept
        for epoch, uncut in reassignment.came_uncut(self.ledger, app, came, self.colours.epoch).items():
            if epoch in self.open.aborted:
                continue
            if early:
                what = f"{self._name} ran events of {early[0]} before the ledger named its owner"
                actions += self._abort_open(epoch - 1, epoch, "contaminated", what, str(early[0]))
            else:
                actions += self._supplement(epoch, uncut)
        return actions

    def _rules(self, app: str, ours: Iterable[AssignedInput]) -> dict[tuple[str, TopicPartition], Rule]:
        """Return the rules by which a restore lets the agents skip records of these inputs: the group has one offset,
        a snapshot one per agent."""
        restores = self.ledger.restores
        return {
            (agent, entry.tp): rule
            for entry in ours
            for agent, rule in restores.rules(app, entry.tp).items()
            if rule.spent > entry.position
        }

    def _supplement(self, epoch: int, uncut: list[TopicPartition]) -> list[Action]:
        """Cut inputs where they start (R10): they were assigned uncut to a process that is red for `epoch`."""
        positions = self.positions.where_assigned(uncut)
        self.positions.remember(epoch - 1, epoch, positions)
        item = reassignment.supplement(
            process=self._me,
            n=self._next_n(),
            epoch=epoch,
            assigned=self.inputs.assigned,
            positions=positions,
            changelogs=self.earlier.ends(self.inputs.tables),
        )
        self.open.supplements.append(item)
        return [AppendToLedger(record=item.report), AskEnds(report=item.report.n, tps=tuple(uncut))]

    def _stopped_seen(self, event: StoppedSeen) -> list[Action]:
        """Cut the inputs of an app that does not run (R10), if its snapshot is still open."""
        asked = self.open.asked.get((event.epoch, event.app))
        if self.process is None or event.epoch not in self.ledger.open or asked is None:
            return []
        why = reassignment.runs(event, self.ledger)
        item = self.open.of_stopped(event.epoch, event.app)
        joined = any(view.hello.app == event.app for view in self.ledger.living())
        if not why and item is not None and not joined and not reassignment.stood_still(item, event):
            why = f"app {event.app} ran while the snapshot was taken, and no process of it takes part"
        if why:
            culprit = f"app {event.app}"
            return self._abort_open(event.epoch - 1, event.epoch, APP_RUNS_WITHOUT, why, culprit)
        if item is not None:
            item.asked = None
            return self._advance()
        if joined and event.members:
            return []  # who has joined since cuts its inputs itself
        item = reassignment.stopped(event, asked, process=self.process, n=self._next_n())
        self.open.supplements.append(item)
        return [AppendToLedger(record=item.report)]

    # -- who this process is (R11, R12) -----------------------------------------------------------------------

    def _recognised(self, offset: int) -> list[Action]:
        """Take our id, the offset of our `Hello`, and our epoch, the highest trigger below it (R11). The process that
        triggered a snapshot, or was waited for, may have left: the open snapshots are ours to watch, too (R12)."""
        self._hello_n = None
        self.process = offset
        if self._stood_down_why is not None:
            return self.stand_down(self._stood_down_why)
        if self.ledger.highest_epoch > self.colours.epoch:
            self.colours.turn(self.ledger.highest_epoch)
        actions = [*(self._contaminated() if self.absent else []), *map(_timer, self.ledger.open.values())]
        actions += self._inform_refused()
        return [*actions, *self._announce()] if self.inputs.announceable else actions

    def _new_life(self, *, recreated: bool = False) -> list[Action]:
        """Join again before anything is sent: our id is void, because we read our own `Dead` (R12) or the ledger was
        recreated. Work in flight under the old identity has no colour: see `_cut`."""
        if self.process is None and self._hello_n is None:
            return []  # it has not said anything yet
        void, self.process = NOBODY if self.process is None else self.process, None
        went_on = self._strayed or self.absent or self.colours.stamped > self._known_sent
        self._strayed, self._known_sent = self.absent, 0
        self._sent_by.clear()
        self.open.clear()
        self.inputs.lose()
        self.positions.forget_cuts()
        busy = self.colours.busy
        self.earlier.add(self.colours)
        self._batches.clear()
        earlier, self.colours = self.colours, Colours(self.ledger.highest_epoch)
        self.colours.keep_bare(earlier)
        return [AppendHello(void=void, was=void if (busy or went_on) and not recreated else NOBODY)]

    def _ledger_cut_short(self, event: LedgerCutShort) -> list[Action]:
        """R11: who we are and what is red, as far as it was read from the tail, stands in no ledger any more. Its
        numbers are named, so that nobody gets them again, and we join as another process."""
        again = [
            *self.ledger.tails.named_from(event.since),
            *self._losses.values(),
        ]  # nobody may know of these
        since = min([event.since, *(record.since for record in again)])
        upto = max([event.upto, *(record.upto for record in again)])
        void = NOBODY if self.process is None or since <= self.process < upto else self.process
        lost = TailLost(n=event.n, since=since, upto=upto, void=void)
        self._losses = {lost.n: lost}
        self._other_ledger()
        return [AppendToLedger(record=lost), *self._new_life()]

    def _join_behind_the_lost(self, offset: int, was: int) -> list[Action]:
        """Pass the lost range and join behind it: our Hello stands in it, so its number is not ours."""
        self._hello_n = None
        return [*self._fill(offset), AppendHello(void=offset, was=was)]

    def _pass_the_lost(self) -> list[Action]:
        """Fill the lost range, if this process is the first: a snapshot failed because its number was used before."""
        first = min((view.process for view in self.ledger.participants()), default=NOBODY)
        return self._fill(self._me) if self.process == first else []

    def _fill(self, author: int) -> list[Action]:
        upto = self.ledger.tails.upto
        filling = TailLost(process=author, n=self._next_n(), since=upto - 1, upto=upto)
        return [AppendToLedger(record=filling)]

    def _alive_in(self, record: LedgerRecord) -> None:
        """Note a record of ours in the ledger without a `Dead` of ours below it: what we had sent when we wrote it was
        sent alive. What we sent since may have left when we were declared dead already and did not know it (R12)."""
        if record.process != self.process or record.n not in self._sent_by:
            return
        self._known_sent, self._strayed = self._sent_by[record.n], self.absent
        self._sent_by = {n: sent for n, sent in self._sent_by.items() if n > record.n}

    def _other_ledger(self, start: int = 0) -> None:
        """Forget the ledger read so far: it was recreated, or we missed a part of it."""
        self.ledger = LedgerState(history=False, start=start)
        self._refused.clear()
        self.open.aborted.clear()

    @property
    def _name(self) -> str:
        return f"process {self.process}"

    @property
    def _me(self) -> int:
        assert self.process is not None, "a process that has not joined writes nothing but Hello"
        return self.process

    def _next_n(self) -> int:
        self._n += 1
        self._sent_by[self._n] = self.colours.stamped
        return self._n

    def stand_down(self, why: str = "", process: int | None = None) -> list[Action]:
        """Stand down after a fault of ours (R15): the app runs on, and its work is in no snapshot from here on.

        Args:
            why: the reason, for the ledger.
            process: the id, where this machine has not read it.
        """
        self._stood_down_why = why
        process = self.process if process is None else process
        if process is None:
            return []  # if a Hello is on its way, then when that is read
        self.stood_down, self.process, self._hello_n = process, None, None
        self.open.clear()
        bye = Bye(process=process, n=self._next_n(), goes_on=True, since=self.ledger.end, reason=why)
        return [AppendToLedger(record=bye)]

    def lose_identity(self, process: int | None) -> None:
        """Take no part any more, where `stand_down` could not be called or has failed: `process` is the id it had."""
        self.process, self.stood_down = None, process

    def send_no_markers(self) -> None:
        """Let headers alone show the cut, wherever this process sends."""
        self.marks = False

    def _ran_without(self, since: int) -> list[Action]:
        """Fail the snapshots that are open, or were captured since (R10): the app may have mixed their colours before
        it joined. Its table writes until then have no header, and only the log shows where they end."""
        self._uncounted = True
        if self.process is None:
            return []
        what = f"{self._name} of app {self.ledger.app_of(self._me)} ran before its Hello was in the ledger"
        mixed = [
            epoch
            for epoch, view in sorted(self.ledger.snapshots.items())
            if view.open or (view.captured_at is not None and view.captured_at >= since)
        ]
        return self.open.abort(
            mixed, APP_RUNS_WITHOUT, what, self._name, process=self._me, next_n=self._next_n
        )

    # -- failing by name (R12, R15) ---------------------------------------------------------------------------

    def _timer_expired(self, epoch: int) -> list[Action]:
        """Abort a snapshot that is not captured in time (R12) and name the culprit; a sender that gave no sign is not
        waited for again."""
        if self.process is None or epoch not in self.ledger.open or epoch in self.open.aborted:
            return []
        waits = self.ledger.waiting(epoch)
        first = str(next(iter(waits), "nothing that the ledger shows"))
        what = f"not captured within {self.ledger.open[epoch].trigger.ttl_ms} ms: waited for {first}"
        actions = self._abort_open(epoch - 1, epoch, "ttl", what, first)
        silent = [w.process for w in waits if w.what == "report" and w.process != self.process]
        return [
            *actions,
            *(AppendToLedger(record=Dead(process=self._me, n=self._next_n(), dead=p)) for p in silent),
        ]

    def _contaminated(self) -> list[Action]:
        """Fail every open snapshot (R15): work without the machine may have mixed its colours."""
        highest = self.ledger.highest_epoch
        what = f"{self._name} was absent meanwhile"
        actions = self._abort_open(0, highest, "contaminated", what, self._name)
        if highest > self.colours.epoch:
            self.colours.turn(highest)
        self._rest()
        return actions

    def _abort_open(
        self, above: int, upto: int, code: str, reason: str, culprit: str, *, captured: bool = False
    ) -> list[Action]:
        if self.process is None:
            return []  # who is nobody writes nothing; it is missed as it is
        among = self.ledger.snapshots if captured else self.ledger.open
        epochs = [e for e, view in sorted(among.items()) if above < e <= upto and view.failure is None]
        actions = self.open.abort(epochs, code, reason, culprit, process=self._me, next_n=self._next_n)
        self._drop_decided()
        return actions


def _timer(snapshot: SnapshotView) -> StartTimer:
    return StartTimer(epoch=snapshot.epoch, ttl_ms=snapshot.trigger.ttl_ms)
