"""One process in the protocol: events in, actions out, nothing else.

Theory of operation. Chandy and Lamport (1985) give a process two rules. Each of their clauses has its counterpart here.

    1985                                            here
    a marker comes, and q has not recorded          `_met`: a believed epoch above mine, whatever brings it   R1, R2
    q records its state                             `_cut`: one instant, positions instead of copies          R3, R4
    one marker along each channel, before           `closing.ask_markers`; what white events still send after
        any further message                             it has its own colour (`hot_path`)                    R5, R7
    a channel: what came after q recorded and       a range of offsets, from q's position to where the
        before the marker                               sender's white ends                                   R8
    somebody collects what was recorded             `Report`, in a ledger that all fold alike             R11

They needed no more, as their processes neither join nor leave nor fail, nor pass inputs on to each other. This machine
also answers: the identity of a process (R11), and for which processes nobody waits any more (R12). While inputs move
(R9), a snapshot fails.

A process is always in one of three conditions:

    not joined ──own Hello read──> white or red for what the ledger holds ──own Dead read──> not joined again
                                          │
                    meets a believed epoch: the cut (one instant, R3), then for each open cut:
                                        │
       white events end ─ markers asked ─ sends and markers acknowledged ─> Report

Several cuts can be open at once; each is reported by itself. The decisions, in their order:

* *May I believe this epoch?* Only if the ledger holds a `Trigger` just below it (R2). A record with a higher epoch
  than ours is not taken in before the ledger has been read up to there: `ReadLedgerTo`.
* *Must I cut?* If the epoch is believed and above mine. `hear` can switch off a source of epochs, for tests and
  proofs; the rule "take in nothing red while white" holds with any of them.
* *May I report?* `closing.ready`.
* *Whose inputs do I cut?* Those of my latest `Assigned` (`membership`, R9).
* *Is my report true?* If the process did anything without this machine (R15), or has work in flight from an earlier
  identity, the snapshot is aborted by name; nothing of it stands in the way of the next one.

`handle` takes the less frequent events. The hot path of a service, with plain arguments, is in `hot_path`; who this
process is, and how it fails a snapshot, in `membership`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from . import closing
from .actions import (
    Action,
    AppendToLedger,
    AskState,
    Hold,
    ReadLedgerTo,
    TurnedRed,
)
from .cut import OpenCut
from .events import (
    Absence,
    AssignedInput,
    ChannelEnded,
    Event,
    InputsAssigned,
    InputsRevoked,
    Joined,
    LedgerRead,
    LedgerRecreated,
    MarkerMet,
    MarkerSettled,
    RanWithout,
    RecordMet,
    StateGiven,
    StopAsked,
    TimerExpired,
)
from .ledger_state import begins
from .membership import Member, timer
from .records import (
    NOT_ALIGNED,
    NOT_GIVEN,
    UNKNOWN_PARTITION,
    Assigned,
    ChangelogEnd,
    Dead,
    Heard,
    Hello,
    Report,
    Restore,
    TopicPartition,
    Trigger,
)
from .restores import Rule

#: By what a process may learn of a snapshot.
HEAR_ALL = frozenset({"ledger", "markers", "headers"})


class WorkerProtocol(Member):
    """The machine: feed it events, do its actions in their order, and feed back the results.

    Args:
        hear: the sources ("ledger", "markers", "headers") from which it may learn of a snapshot.
        asks_state: the process hands over its state before it cuts, and takes in nothing red meanwhile. It cannot hold
            back its inputs otherwise (R16): if it has any, it fails an aligned snapshot.
    """

    def __init__(self, *, hear: frozenset[str] = HEAR_ALL, asks_state: bool = False) -> None:
        assert hear and hear <= HEAR_ALL, "hear is a part of ledger, markers, headers"
        super().__init__()
        self._aligns, self._asks_state = not asks_state and "ledger" in hear, asks_state
        self.hear = hear

    def handle(self, event: Event) -> list[Action]:
        """Take in one event; return the actions that it calls for, in their order."""
        match event:
            case LedgerRead():
                return self._ledger_read(event)
            case RecordMet():
                return self._red_met(event)
            case MarkerMet():
                if self.aligning and event.epoch <= self.ledger.end and self.aligner.is_ahead(event.epoch):
                    if self._asks_state and self.aligner.holds(event.epoch):
                        return [Hold(epoch=event.epoch)]  # what is in flight before it is recorded
                    return []  # a barrier that it waits for; white records of other senders may follow it
                return self._met(event.epoch, "marker", may="markers" in self.hear)
            case ChannelEnded():
                self.open.channel_ended(event)
                return []
            case MarkerSettled() if event.failure:
                self.colours.marker_failed(event.tp, event.seq)
                what = f"the marker for {event.tp} could not be sent: {event.failure}"
                return self._abort_open(event.epoch - 1, event.epoch, "marker-failed", what, str(event.tp))
            case MarkerSettled():
                self.open.marker_settled(event)
                return self._advance()
            case TimerExpired():
                if event.epoch in self.aligner.awaits_state():
                    late = self._without_state([event.epoch], "did not hand over its state in time")
                    return [*late, *self._align()]
                return self._timer_expired(event.epoch)
            case StateGiven():
                self.aligner.state_given(event.epoch)
                return self._advance()
            case InputsAssigned() | InputsRevoked():
                return self._of_inputs(event)
            case RanWithout():
                return self._ran_without(event.since)
            case Joined() | StopAsked() | LedgerRecreated():
                return self._of_membership(event)
            case Absence():
                self.absent = not event.over
                return [] if self.process is None else [*self.aligner.clear(), *self._contaminated()]
            case _:
                assert_never(event)

    def _ledger_read(self, event: LedgerRead) -> list[Action]:
        missed = begins(event.record, event.offset)  # what, nobody can know
        if missed:
            self._other_ledger()
        self.ledger.apply(event.offset, event.record)
        if missed:
            return [] if self.process is None else self._new_life()
        match event.record:
            case Trigger() as trigger if self.process is not None and self.ledger.is_epoch(event.offset + 1):
                return self._triggered(event.offset + 1, own=trigger.process == self.process)
            case Hello() as hello if hello.n == self._hello_n:
                return self._recognised(event.offset)
            case Assigned(process=process, n=n) if (process, n) == (self.process, self.inputs.given_n):
                if self.ledger.processes[process].assigned == event.offset:  # else a copy
                    self._assigned(event.offset)
            case Dead() as dead if dead.dead == self.process:
                return self._new_life()
            case Restore() if self.process is not None and not self.ledger.is_alive(self.process):
                return self._new_life()  # it has ended this identity
            case _:
                pass
        self._drop_decided()
        return self._advance()

    # -- hearing of a snapshot (R1, R2) -----------------------------------------------------------------------

    def _triggered(self, epoch: int, *, own: bool) -> list[Action]:
        """Handle a snapshot reported by the ledger: the fast path, and the only one for the process that triggered
        it."""
        if self.absent:
            return self._contaminated()
        actions = self._begin_to_wait(epoch)
        if not self.aligner.is_white(epoch) and (own or "ledger" in self.hear):
            actions += self._cut(epoch, "trigger" if own else "ledger")
        return [*actions, *self._advance(), timer(self.ledger.snapshots[epoch])]

    def _red_met(self, event: RecordMet) -> list[Action]:
        """Hold a red record back while this process aligns (R16), unless that cannot wait; else it cuts (R2)."""
        known = self.colours.epoch < event.epoch <= self.ledger.end
        if self.aligning and known and event.may_wait and self.aligner.holds(event.epoch):
            return [Hold(epoch=event.epoch)]
        return self._met(event.epoch, "header", may="headers" in self.hear)

    def _met(self, epoch: int, heard: Heard, *, may: bool) -> list[Action]:
        """Handle a red record that is about to be taken in (R2): read the ledger up to its trigger first, then believe
        it or not. A process that is absent takes it in at once (R15), and does not come back before the ledger is read
        up to there."""
        if self.process is None or epoch <= self.colours.epoch:
            return []
        if epoch > self.ledger.end:
            return [ReadLedgerTo(offset=epoch - 1)] if may or "ledger" in self.hear else []
        return [*self._cut(epoch, heard), *self._advance()] if may and self.ledger.is_epoch(epoch) else []

    def takes_from(self, process: int) -> None:
        """Note who sent a reply, or a change of a global table: if it is absent, its epoch does not tell its colour."""
        if self.inputs.latest is not None:  # what was recovered before is older than any snapshot of ours
            self._took_from.add(process)

    # -- the cut (R3, R4) -------------------------------------------------------------------------------------

    def _cut(self, epoch: int, heard: Heard, *, aligned: bool = False) -> list[Action]:
        """Turn red here and now (R3). Nothing waits for the report (R4). `aligned`: nothing is in flight to this
        process (R16)."""
        if self.process is None or epoch <= self.colours.epoch:
            return []
        actions: list[Action] = []
        if self.aligning and not aligned:
            red = "a red reply or table change cannot be held back"
            other = "it cut for another snapshot meanwhile"
            actions += self._cannot_wait(epoch, red if heard == "header" else other)
        self._settle_earlier()
        cut = self._turn(epoch, heard)
        actions += self.aligner.cut(self.ledger, epoch, self.process, aligned=aligned)
        actions.append(TurnedRed(epoch=epoch, previous=cut.previous, heard=heard))
        if not self.open.wants(cut, {e for e, s in self.ledger.open.items() if self.process in s.required}):
            app = self.ledger.app_of(self.process)
            if any(cut.serves(e) and app not in s.apps for e, s in self.ledger.snapshots.items()):
                actions.append(AppendToLedger(record=cut.noted))
            self._rest()
        elif self.earlier:
            what = f"{self._name} still has work under way from before it was declared dead"
            actions += self._abort_open(cut.previous, epoch, "contaminated", what, self._name)
        else:
            self.open.cuts[epoch] = cut
            # None: decided, and forgotten; the cut serves an older one.
            snapshot = self.ledger.snapshots.get(epoch)
            if snapshot is not None and self.marks:
                cut.marker_topics = snapshot.markers
            actions += closing.ask_markers(cut, self.colours)
        return [*actions, *self.aligner.let_go()]

    def _turn(self, epoch: int, heard: Heard) -> OpenCut:
        """Note positions, note the running events, turn the colour. After this line the process is red for `epoch`."""
        noted = Report(
            process=self._me,
            n=self._next_n(),
            epoch=epoch,
            previous=self.colours.epoch,
            heard=heard,
            assigned=self.inputs.assigned,
            positions=self.positions.note(),
            running=(*self.colours.running_white(),),
            skipped=self.positions.skipped,
        )
        self.positions.noted.append(noted)
        self.colours.turn(epoch)
        return OpenCut(noted=noted, changelogs=tuple(map(self._raised, self.inputs.tables)))

    def _raised(self, end: ChangelogEnd) -> ChangelogEnd:
        """Return the end of a table as recovered with our inputs, or as an earlier identity wrote there since."""
        written = self._written.get(TopicPartition(end.topic, end.partition), 0)
        return end if written <= end.end else replace(end, end=written)

    # -- waiting with the cut (R16) -------------------------------------------------------------------------

    def _begin_to_wait(self, epoch: int) -> list[Action]:
        """Wait with the cut, if the snapshot is to be aligned, and for the state of this process, if it hands that
        over."""
        snapshot = self.ledger.open.get(epoch)
        required = snapshot is not None and self.process in snapshot.required
        if self._asks_state and required and self.inputs.assigned < 0:
            return self._without_state([epoch], "was joining")
        if snapshot is None or not required:
            if self.aligner.awaits_state():
                self.aligner.begin(epoch, state=True)
            return []
        if snapshot.trigger.align and self._aligns:
            self.aligner.begin(epoch)
        elif snapshot.trigger.align and self.positions.inputs():
            why = f"{self._name} cannot hold back its inputs"
            return self._abort_open(epoch - 1, epoch, NOT_ALIGNED, why, self._name)
        elif self._asks_state:
            self.aligner.begin(epoch, state=False)
            return [AskState(epoch=epoch, id=snapshot.trigger.id)]
        return []

    def _without_state(self, epochs: list[int], why: str) -> list[Action]:
        """Fail snapshots for which this process does not hand over its state."""
        actions: list[Action] = []
        for epoch in epochs:
            actions += self._abort_open(epoch - 1, epoch, NOT_GIVEN, f"{self._name} {why}", self._name)
            self.aligner.give_up(epoch)
        return actions

    def _cannot_wait(self, upto: int, why: str) -> list[Action]:
        """Fail the snapshots up to this epoch for which this process waits with its cut."""
        return [
            action
            for epoch, code, what in self.aligner.cannot_wait(upto, why)
            for action in self._abort_open(epoch - 1, epoch, code, f"{self._name} {what}", self._name)
        ]

    def _align(self) -> list[Action]:
        """Cut for what is aligned by now; let go what need not wait any more."""
        actions: list[Action] = []
        while epoch := self.aligner.due(self.ledger, self._me, self.positions, self.colours):
            actions += self._cut(epoch, "ledger", aligned=True)
        return [*actions, *self.aligner.let_go()]

    # -- closing (R7) -----------------------------------------------------------------------------------------

    def _advance(self) -> list[Action]:
        """Return the actions that became possible: markers that can be sent, reports that are ready."""
        if self.process is None:
            return []
        actions: list[Action] = self._align() if self.aligning else []
        for epoch, cut in sorted(self.open.cuts.items()):
            actions += closing.ask_markers(cut, self.colours)
            if closing.ready(cut, self.colours):
                record = closing.report(cut, self.colours, self._took_from)
                for unknown, tp in closing.unknown_partitions(cut, record, self.ledger):
                    why = f"{self._name} has sent to {tp}, which no process has named as its input"
                    actions += self._abort([unknown], UNKNOWN_PARTITION, why, str(tp))
                actions.append(AppendToLedger(record=record))
                del self.open.cuts[epoch]
        if actions:
            self._rest()
        return actions

    # -- inputs that come and go (R9) --------------------------------------------------------------------

    def _of_inputs(self, event: InputsAssigned | InputsRevoked) -> list[Action]:
        if isinstance(event, InputsRevoked):
            self.positions.take(event.undone_from)
            self.inputs.take()
            return []
        if not self.inputs.taken:
            self.positions.take()
        self.inputs.assign(event)
        return [] if self.process is None else self._announce()

    def _assigned(self, offset: int) -> None:
        """Take over the inputs (R9): the ledger is read up to our `Assigned`."""
        if self.inputs.announced(offset):
            self._written.clear()  # the tables that were recovered with them contain it
        if self.inputs.taken:
            return  # it comes too late: they are not ours to read any more
        app = self.ledger.app_of(self._me)
        ours = self.inputs.ours(self.ledger, self._me)
        self.positions.assign(ours, self._rules(app, ours))

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
