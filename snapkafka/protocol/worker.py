"""One process in the protocol: events in, actions out, nothing else.

Theory of operation
-------------------
A process is always in one of three conditions:

    stranger ──own Hello read──> white or red for what the ledger holds ──own Dead read──> stranger again
                                        │
                    meets a believed epoch: the cut (one instant, R3), then for each open cut:
                                        │
       report appended ─ white events end ─ markers asked ─ report read back, sends and markers acknowledged ─> Closed

Several cuts can be open at once; each closes by itself. What decides, in the order of the questions asked:

* *May I believe this epoch?* Only if the ledger holds a `Trigger` just below it (R2). A record with a higher epoch
  than ours is not taken in before the ledger has been read up to there: `ReadLedgerTo`.
* *Must I cut?* If the epoch is believed and above mine. `hear` can forbid a source of news, for tests and for proof;
  the rule "take in nothing red while white" holds under any of them.
* *May I close?* `closing.ready`.
* *Whose inputs do I cut?* Mine at my own cut; what came to me uncut after it, where it starts (`moves`, R10); those of
  an app that does not run, if my id is the smallest.
* *Is what I would report true?* If the process did anything without this machine (R15), or has work under way from an
  earlier life, the snapshot is aborted by name; nothing of it stands in the way of the next one.

The methods with plain arguments are the hot path of a service; `handle` is for all that happens less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from . import closing, moves
from .actions import (
    Action,
    AppendToLedger,
    AskEnds,
    AskStopped,
    ReadLedgerTo,
    SayHello,
    SendMarkers,
    StartTimer,
    TurnedRed,
)
from .colours import Cause, Colours, Effect, Torn
from .completion import LedgerState, SnapshotView, Waiting
from .cut import OpenCut, Positions, take_cut
from .events import (
    CameBack,
    ChannelEnded,
    CutTimed,
    EndsSeen,
    Event,
    InputsGiven,
    InputsTaken,
    Joined,
    LedgerBegins,
    LedgerRead,
    LedgerRecreated,
    MarkerFailed,
    MarkerMet,
    MarkerSent,
    RecordMet,
    StopAsked,
    StoppedSeen,
    TimerExpired,
    TriggerAppended,
    WentAbsent,
)
from .moves import OpenSupplement
from .records import (
    NOBODY,
    Abort,
    Assigned,
    Bye,
    ChangelogEnd,
    ChannelRange,
    CutReport,
    Dead,
    Heard,
    Hello,
    TopicPartition,
    TornEvent,
    Trigger,
)

__all__ = ["HEAR_ALL", "WorkerProtocol"]

#: By what a process may learn of a snapshot.
HEAR_ALL = frozenset({"ledger", "markers", "headers"})

_NOTHING: Sequence[Action] = ()


class WorkerProtocol:
    """The machine. Feed it events, do its actions in their order, feed back what came of them.

    Args:
        hear: which of "ledger", "markers", "headers" may tell it of a snapshot.
        classic: red sends wait until the markers are out, as in 1985: then markers alone keep the cut safe.
    """

    def __init__(self, *, hear: frozenset[str] = HEAR_ALL, classic: bool = False) -> None:
        assert hear and hear <= HEAR_ALL, "hear is a part of ledger, markers, headers"
        self.hear = hear
        self.classic = classic
        self.marks = True  # False: headers alone do it, wherever this process sends
        self.ledger = LedgerState(history=False)
        self.process: int | None = None
        self.absent = False
        self.colours = Colours()
        self.positions = Positions()
        self.cuts: dict[int, OpenCut] = {}
        self.supplements: list[OpenSupplement] = []
        self.assigned = -1  # ledger offset of our latest Assigned
        self._past: list[Colours] = []  # earlier lives that still have something on its way
        self._hello_n: int | None = None
        self._own_triggers: set[int] = set()
        self._given: InputsGiven | None = None
        self._given_n = -1
        self._ours: InputsGiven | None = None  # the assignment that is ours, once its Assigned is read
        self._tables: tuple[ChangelogEnd, ...] = ()  # as recovered with it
        self._written_before: dict[TopicPartition, int] = {}  # ends of what earlier lives wrote
        self._aborted: set[int] = set()  # epochs we have aborted and not yet read back
        self._batches: dict[Cause, tuple[Cause, ...]] = {}  # running event -> those that were started with it
        self._n = 0

    # -- the hot path -----------------------------------------------------------------------------------------

    def event_started(self, event: Cause) -> None:
        """An agent starts on a record: it has the colour of this instant for good."""
        self.positions.start(event.agent, event.tp, event.offset)
        self.colours.start(event)

    def batch_started(self, events: Sequence[Cause]) -> Sequence[Action]:
        """An agent is handed several records at once: they start now, or go on, in one colour, until each has ended.

        Those that have run before (something handled the records on their way into the batch) may have an earlier one:
        then the batch tears them (R6).
        """
        batch = tuple(events)
        for event in batch:
            self.event_started(event)
            self._batches[event] = batch
        colours = {event: self.colours.running[event] for event in batch}
        latest = max(colours.values(), default=0)
        early = next((event for event, colour in colours.items() if colour < latest), None)
        return _NOTHING if early is None else self._torn(self.colours.tear(early, latest))

    def worked_off(self, event: Cause, by: Cause | None) -> Sequence[Action]:
        """The work on a running event was done in the course of another one (None: outside any): what came of it has
        that one's colour, and so has the event from now on (R6)."""
        colour = self.colours.running.get(by, self.colours.epoch) if by is not None else self.colours.epoch
        return self._torn(self.colours.tear(event, colour))

    def event_ended(self, event: Cause) -> Sequence[Action]:
        """An agent is done with a record."""
        self.colours.end(event)
        if self._batches:
            self._batches.pop(event, None)
        if self._past:
            for past in self._past:
                past.end(event)
        return self._advance() if self.cuts else _NOTHING

    def table_touched(self, event: Cause | None, table: str, key: object, *, write: bool) -> Sequence[Action]:
        """A running event reads or writes a table key; to be called only while `colours.tearing` (R6).

        `event` is None for what is written outside any event.
        """
        return self._torn(self.colours.touch(event, table, key, write=write))

    def table_read(self, event: Cause | None, table: str) -> Sequence[Action]:
        """A running event reads all of a table (iterates, counts); to be called only while `colours.tearing` (R6)."""
        return self._torn(self.colours.touch_whole(event, table))

    def key_received(self, table: str, key: object, epoch: int) -> None:
        """A key changes by what another process wrote (a global table), in its colour; the record itself was met."""
        self.colours.received(table, key, epoch)

    def reply_taken(self, event: Cause, epoch: int) -> Sequence[Action]:
        """A running event takes in a reply of this colour; the record itself was met (R6)."""
        return self._torn(self.colours.tear(event, epoch))

    def _torn(self, torn: Torn | None) -> Sequence[Action]:
        """R6: the event goes on in red, and all of its batch with it."""
        if torn is None:
            return _NOTHING
        self._list_torn(torn)
        for other in self._batches.get(torn.event, ()):
            also = self.colours.tear(other, torn.by, torn.table)
            if also is not None:
                self._list_torn(also)
        return self._advance()

    def _list_torn(self, torn: Torn) -> None:
        """R6: for every open cut that it crossed, the event counts as not processed."""
        (agent, (topic, partition), offset, _), epoch, by, table = torn
        event = TornEvent(
            agent=agent, topic=topic, partition=partition, offset=offset, was=epoch, met=by, table=table
        )
        for cut in self.cuts.values():
            if max(epoch, cut.previous) < min(by, cut.epoch):
                cut.torn.append(event)  # for some of the snapshots that it serves at least

    def send_entered(self, event: Cause | None) -> Effect:
        """A send enters here, wherever it leaves later (R5)."""
        effect = self.colours.enter(event)
        if self._past and event is not None and any(event in past.running for past in self._past):
            return effect._replace(
                cause=event
            )  # an event of an earlier life: its effects are still its effects
        return effect

    def send_entered_again(self, effect: Effect) -> Effect:
        """What entered in an earlier life and has not left: it has the colour of the process, and its own cause."""
        return self.colours.enter(None)._replace(cause=effect.cause)

    def send_stamped(self, effect: Effect, tp: TopicPartition) -> int:
        """The seq of this send in `tp`. Stamp and append under one lock per partition."""
        assert effect.sent is self.colours.sent, (
            "a send of an earlier life is entered anew before it is stamped"
        )
        return self.colours.stamp(tp)

    def send_unstamped(self, effect: Effect, tp: TopicPartition, seq: int) -> None:
        """The append failed under the lock: the seq was never used."""
        Colours.unstamp(effect.sent[tp], seq)

    def must_wait(self, effect: Effect) -> bool:
        """In classic mode: must this send wait for the markers of a cut that it is red for?"""
        return self.classic and any(
            epoch <= effect.epoch and not cut.markers_asked for epoch, cut in self.cuts.items()
        )

    def first_marker(self, effect: Effect, tp: TopicPartition) -> SendMarkers | None:
        """In classic mode: the marker that must lie in a partition before our first record there, if that is red.

        At a cut only the partitions that were sent to before get a marker; one sent to later for the first time has to
        tell its reader of the snapshot too, and of a process born red nobody could learn it otherwise.
        """
        if (
            not self.classic
            or tp in self.colours.sent
            or not effect.epoch
            or tp.topic not in self._marker_topics
        ):
            return None
        return SendMarkers(epoch=effect.epoch, previous=0, tps=(tp,))

    def is_awaited(self, effect: Effect) -> bool:
        """In classic mode: do the markers of a cut wait for this send? Then it waits for no red one before it."""
        return any(effect.epoch < epoch and not cut.markers_asked for epoch, cut in self.cuts.items())

    def send_appended(self, effect: Effect) -> Sequence[Action]:
        """The send has left in its order; its acknowledgement follows."""
        Colours.append(effect)
        return self._advance() if self.cuts else _NOTHING

    def send_acked(self, effect: Effect, tp: TopicPartition, seq: int, offset: int) -> Sequence[Action]:
        """The send lies at `offset`."""
        Colours.ack(effect, tp, seq, offset)
        return self._advance() if self.cuts else _NOTHING

    def send_failed(self, effect: Effect, tp: TopicPartition, seq: int, reason: str) -> Sequence[Action]:
        """R7: a failed white send means no `Closed`, for every open cut that it is white for."""
        Colours.fail(effect, tp, seq)
        if not self.cuts:
            return _NOTHING
        what = f"a white send to {tp} failed: {reason}"
        return [
            *self._abort_open(effect.epoch, self.colours.epoch, "send-failed", what, str(tp)),
            *self._advance(),
        ]

    def send_withdrawn(self, effect: Effect) -> Sequence[Action]:
        """The send was given up before it was appended: nothing of it is in the log."""
        Colours.withdraw(effect)
        return self._advance() if self.cuts else _NOTHING

    def marker_stamped(self, tp: TopicPartition) -> int:
        """The seq of a marker."""
        return self.colours.stamp(tp)

    def marker_unstamped(self, tp: TopicPartition, seq: int) -> None:
        """The marker was never appended."""
        Colours.unstamp(self.colours.sent[tp], seq)

    # -- everything else --------------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Action]:
        """Take in one event; the actions it calls for, in their order."""
        match event:
            case LedgerRead():
                return self._ledger_read(event)
            case RecordMet():
                return self._met(event.epoch, "header", may="headers" in self.hear)
            case MarkerMet():
                return self._met(event.epoch, "marker", may="markers" in self.hear)
            case ChannelEnded():
                return self._channel_ended(event)
            case LedgerRecreated():
                self.ledger = LedgerState(history=False)
                self._aborted.clear()
                return self._new_life(recreated=True)
            case LedgerBegins():
                if event.start <= self.ledger.end:
                    return []
                self.ledger = LedgerState(history=False, start=event.start)
                self._aborted.clear()
                return [] if self.process is None else self._new_life()
            case Joined():
                self._hello_n = event.hello.n
                return []
            case TriggerAppended():
                self._own_triggers.add(event.n)
                return []
            case InputsGiven():
                return self._inputs_given(event)
            case InputsTaken():
                self.positions.take()
                self._tables = ()
                return []
            case MarkerSent():
                cut = self.cuts.get(event.epoch)
                if cut is not None:
                    cut.markers_due.discard(event.tp)
                    cut.markers[event.tp] = event.offset
                return self._advance()
            case MarkerFailed():
                what = f"the marker for {event.tp} could not be sent: {event.reason}"
                return self._abort_open(event.epoch - 1, event.epoch, "marker-failed", what, str(event.tp))
            case EndsSeen():
                for cut in self.cuts.values():
                    if cut.report_n == event.report:
                        cut.ends = event.ends
                for open_supplement in self.supplements:
                    if open_supplement.report.n == event.report:
                        open_supplement.ends = event.ends
                return self._advance()
            case StoppedSeen():
                return self._stopped_seen(event)
            case WentAbsent():
                self.absent = True
                return [] if self.process is None else self._contaminated()
            case CameBack():
                self.absent = False
                return [] if self.process is None else self._contaminated()
            case CutTimed():
                if event.epoch in self.cuts:
                    self.cuts[event.epoch].cut_us = event.us
                return self._advance()
            case TimerExpired():
                return self._timer_expired(event.epoch)
            case StopAsked():
                return (
                    []
                    if self.process is None
                    else [AppendToLedger(record=Bye(process=self.process, n=self._next_n()))]
                )
            case _:
                assert_never(event)

    # -- the ledger -------------------------------------------------------------------------------------------

    def _ledger_read(self, event: LedgerRead) -> list[Action]:
        self.ledger.apply(event.offset, event.record)
        if not self.ledger.whole:
            return []  # ours are written after the checkpoint, so none of them is among these
        match event.record:
            case Hello() as hello if hello.n == self._hello_n:
                return self._recognised(event.offset)
            case Trigger() as trigger:
                own = trigger.n in self._own_triggers
                self._own_triggers.discard(trigger.n)
                if self.process is not None and self.ledger.is_epoch(event.offset + 1):
                    return self._triggered(event.offset + 1, own=own)
            case Assigned() as assigned if assigned.process == self.process and assigned.n == self._given_n:
                return self._assigned(event.offset)
            case CutReport() as report if report.process == self.process:
                self._report_read(event.offset, report)
            case Dead() as dead if dead.dead == self.process:
                return self._new_life()
            case _:
                pass
        self._drop_decided()
        return self._advance()

    def _report_read(self, offset: int, report: CutReport) -> None:
        for cut in self.cuts.values():
            if cut.report_n == report.n:
                cut.report = offset
        for open_supplement in self.supplements:
            if open_supplement.report.n == report.n:
                open_supplement.at = offset

    @property
    def _marker_topics(self) -> tuple[str, ...]:
        """Where markers may go, as the latest trigger says."""
        snapshots = self.ledger.snapshots
        return snapshots[max(snapshots)].trigger.marker_topics if snapshots and self.marks else ()

    def _recognised(self, offset: int) -> list[Action]:
        """R11: our id is the offset of our Hello, our epoch the highest trigger below it. Who triggered or was waited
        for may be gone: what is under way is ours to watch, too (R12)."""
        self._hello_n = None
        self.process = offset
        if self.ledger.highest_epoch > self.colours.epoch:
            self.colours.turn(self.ledger.highest_epoch)
        actions = [*(self._contaminated() if self.absent else []), *map(_timer, self.ledger.open.values())]
        return actions if self._given is None else [*actions, *self._append_assigned(self._given)]

    def _contaminated(self) -> list[Action]:
        """R15: what went on without the machine may have mixed the colours of every snapshot that is open now."""
        highest = self.ledger.highest_epoch
        actions = self._abort_open(
            0, highest, "contaminated", f"{self._name} was absent meanwhile", self._name
        )
        if highest > self.colours.epoch:
            self.colours.turn(highest)
        self._rest()
        return actions

    def _triggered(self, epoch: int, *, own: bool) -> list[Action]:
        if self.absent:
            return self._contaminated()
        actions: list[Action] = []
        if own or "ledger" in self.hear:
            actions = self._cut(epoch, "trigger" if own else "ledger")
        return [*actions, *self._ask_stopped(epoch), _timer(self.ledger.snapshots[epoch])]

    def _new_life(self, *, recreated: bool = False) -> list[Action]:
        """Our id is void, because we read our own `Dead` (R12) or because the ledger is a new one: join again before
        anything is sent. What is still under way from the old life is nobody's colour: see `_cut`."""
        if self.process is None and self._hello_n is None:
            return []  # it has not said anything yet
        void, self.process = NOBODY if self.process is None else self.process, None
        self.cuts.clear()
        self.supplements.clear()
        self._tables = ()
        busy = self.colours.busy
        self._past.append(self.colours)
        self._batches.clear()
        self.colours = Colours(self.ledger.highest_epoch)
        self.assigned = -1
        return [SayHello(void=void, was=void if busy and not recreated else NOBODY)]

    def _settle_past(self) -> None:
        """Lives that have nothing under way any more leave only the ends of what they wrote."""
        for past in self._past:
            if not past.busy:
                for tp, sent in past.sent.items():
                    self._written_before[tp] = max(sent.end, self._written_before.get(tp, 0))
        self._past = [past for past in self._past if past.busy]

    def _changelogs_now(self) -> tuple[ChangelogEnd, ...]:
        """What was recovered with our inputs, and what earlier lives wrote since."""
        return tuple(
            replace(
                end, end=max(end.end, self._written_before.get(TopicPartition(end.topic, end.partition), 0))
            )
            for end in self._tables
        )

    def _drop_decided(self) -> None:
        """An aborted snapshot leaves no memory behind; the process simply stays red (R4)."""
        self._aborted &= self.ledger.open.keys()
        for epoch, cut in list(self.cuts.items()):
            if not self._wanted(cut):
                del self.cuts[epoch]
        if self.supplements:
            self.supplements = [item for item in self.supplements if self._wanted(item)]
        self._rest()

    def _rest(self) -> None:
        """Where no cut is open nobody asks for earlier colours any more."""
        if not self.cuts:
            self.colours.forget()

    def _wanted(self, cut: OpenCut | OpenSupplement) -> bool:
        return any(cut.serves(epoch) for epoch in self.ledger.open if epoch not in self._aborted)

    # -- cutting ----------------------------------------------------------------------------------------------

    def _met(self, epoch: int, heard: Heard, *, may: bool) -> list[Action]:
        """R2: a red record is about to be taken in. Read the ledger up to its trigger first, then believe or not."""
        if self.process is None or epoch <= self.colours.epoch:
            return []
        if epoch > self.ledger.end:
            return [ReadLedgerTo(offset=epoch - 1)] if may or "ledger" in self.hear else []
        return self._cut(epoch, heard) if may and self.ledger.is_epoch(epoch) else []

    def _channel_ended(self, event: ChannelEnded) -> list[Action]:
        """R8, as the receiver sees it: what lies between our position and the sender's marker was on its way."""
        for cut in self.cuts.values():
            start = cut.starts.get(event.tp)
            if start is not None and event.previous < cut.epoch <= event.epoch:
                topic, partition = event.tp
                start, end = min(start, event.offset), event.offset
                cut.recorded.append(
                    ChannelRange(sender=event.sender, topic=topic, partition=partition, start=start, end=end)
                )
        return []

    def _cut(self, epoch: int, heard: Heard) -> list[Action]:
        if self.process is None or epoch <= self.colours.epoch:
            return []
        previous = self.colours.epoch
        self._settle_past()
        cut, report = take_cut(
            self.colours,
            self.positions,
            process=self.process,
            n=self._next_n(),
            epoch=epoch,
            heard=heard,
            assigned=self.assigned,
            changelogs=self._changelogs_now(),
        )
        turned = TurnedRed(epoch=epoch, previous=previous, heard=heard)
        if not self._wanted(cut):
            self._rest()
            return [turned]
        if self._past:
            what = f"{self._name} still has work under way from before it was taken for dead"
            return [turned, *self._abort_open(previous, epoch, "contaminated", what, self._name)]
        self.cuts[epoch] = cut
        snapshot = self.ledger.snapshots.get(
            epoch
        )  # None: decided, and forgotten; the cut serves an older one
        cut.marker_topics = (
            frozenset(snapshot.trigger.marker_topics) if snapshot is not None and self.marks else frozenset()
        )
        tps = self.positions.inputs()
        asked = [AskEnds(report=report.n, tps=tps)] if tps else []
        if not tps:
            cut.ends = ()
        return [turned, *closing.ask_markers(cut, self.colours), AppendToLedger(record=report), *asked]

    # -- closing ----------------------------------------------------------------------------------------------

    def _advance(self) -> list[Action]:
        """Whatever became possible: markers that can be asked for, cuts that can be closed."""
        actions: list[Action] = []
        if self.process is None:
            return actions
        for epoch in sorted(self.cuts):
            cut = self.cuts[epoch]
            actions += closing.ask_markers(cut, self.colours)
            if closing.ready(cut, self.colours):
                record = closing.closed(cut, self.colours, process=self.process, n=self._next_n())
                actions.append(AppendToLedger(record=record))
                del self.cuts[epoch]
        for item in list(self.supplements):
            if (closed := item.closed(self._n + 1)) is not None:
                actions.append(AppendToLedger(record=replace(closed, n=self._next_n())))
                self.supplements.remove(item)
        if actions:
            self._rest()
        return actions

    # -- inputs that come and go ------------------------------------------------------------------------------

    def _inputs_given(self, event: InputsGiven) -> list[Action]:
        self._given = event
        self._tables = ()
        self.positions.take()
        return [] if self.process is None else self._append_assigned(event)

    def _append_assigned(self, given: InputsGiven) -> list[Action]:
        assert self.process is not None
        self._given_n = self._next_n()
        record = Assigned(
            process=self.process,
            n=self._given_n,
            generation=given.generation,
            inputs=tuple(sorted(item.tp for item in given.inputs)),
            changelogs=tuple(sorted(TopicPartition(end.topic, end.partition) for end in given.changelogs)),
        )
        return [AppendToLedger(record=record)]

    def _assigned(self, offset: int) -> list[Action]:
        """R9: the ledger is read up to our `Assigned`: the inputs are ours, and we are as red as any of them was."""
        assert self._given is not None
        self.assigned = offset
        if self._ours is not self._given:
            self._ours = self._given
            self._written_before.clear()
        app = self.ledger.app_of(self._me)
        self._tables = tuple(
            end
            for end in self._given.changelogs
            if self.ledger.owner((app, TopicPartition(end.topic, end.partition))) == self.process
        )
        mine = [item for item in self._given.inputs if self.ledger.owner((app, item.tp)) == self.process]
        early = self.positions.give(mine)
        tps = self.positions.inputs()
        red = moves.red_before(self.ledger, app, tps)
        actions = self._cut(red, "assigned") if red else []
        for epoch, uncut in moves.came_uncut(self.ledger, app, tps, self.colours.epoch).items():
            if epoch in self._aborted:
                continue
            if early:
                what = f"{self._name} ran events of {early[0]} before the ledger had told it whose it was"
                actions += self._abort_open(epoch - 1, epoch, "contaminated", what, str(early[0]))
            else:
                actions += self._supplement(epoch, uncut)
        return actions

    def _supplement(self, epoch: int, uncut: list[TopicPartition]) -> list[Action]:
        """R10: these inputs came uncut to a process that is red for `epoch`; they are cut where they start."""
        item = moves.supplement(
            process=self._me,
            n=self._next_n(),
            epoch=epoch,
            assigned=self.assigned,
            positions=self.positions.where_given(uncut),
            changelogs=self._changelogs_now(),
        )
        self.supplements.append(item)
        return [AppendToLedger(record=item.report), AskEnds(report=item.report.n, tps=tuple(uncut))]

    def _ask_stopped(self, epoch: int) -> list[Action]:
        """R10: inputs of an app that is not running are cut by the living process with the smallest id."""
        snapshot = self.ledger.open.get(epoch)
        if snapshot is None or self.process != min(snapshot.required, default=None):
            return []
        actions: list[Action] = []
        for app in self.ledger.stopped_apps(epoch):
            hello = self.ledger.last_hello(app)
            inputs = tuple(sorted(tp for owner, tp in self.ledger.uncut(epoch) if owner == app))
            actions.append(
                AskStopped(
                    epoch=epoch, app=app, asked_at=self.ledger.end - 1, inputs=inputs, tables=hello.tables
                )
            )
        return actions

    def _stopped_seen(self, event: StoppedSeen) -> list[Action]:
        if self.process is None or event.epoch not in self.ledger.open:
            return []
        item = moves.supplement(
            process=self.process,
            n=self._next_n(),
            epoch=event.epoch,
            assigned=event.asked_at,
            positions=event.positions,
            changelogs=event.changelogs,
            app=event.app,
        )
        item.ends = event.ends
        self.supplements.append(item)
        return [AppendToLedger(record=item.report)]

    @property
    def inputs_ready(self) -> bool:
        """Have the latest inputs been announced and the ledger read up to there?"""
        return self._given is None or self._ours is self._given

    # -- failing by name --------------------------------------------------------------------------------------

    def _timer_expired(self, epoch: int) -> list[Action]:
        """R12: not captured in time. Name who held it up; a sender that gave no sign is not waited for again."""
        if self.process is None or epoch not in self.ledger.open or epoch in self._aborted:
            return []
        waits = self.ledger.waiting(epoch)
        snapshot = self.ledger.open[epoch]
        what = f"not captured within {snapshot.trigger.ttl_ms} ms: waited for {_first(waits)}"
        actions = self._abort_open(epoch - 1, epoch, "ttl", what, _first(waits))
        silent = [w.process for w in waits if w.what == "report" and w.process != self.process]
        return [
            *actions,
            *(AppendToLedger(record=Dead(process=self._me, n=self._next_n(), dead=p)) for p in silent),
        ]

    def _abort_open(self, above: int, upto: int, code: str, reason: str, culprit: str) -> list[Action]:
        """Abort every open snapshot with an epoch in (above, upto]."""
        actions: list[Action] = []
        for epoch in sorted(self.ledger.open):
            if above < epoch <= upto and epoch not in self._aborted:
                self._aborted.add(epoch)
                abort = Abort(
                    process=self._me, n=self._next_n(), epoch=epoch, code=code, reason=reason, culprit=culprit
                )
                actions.append(AppendToLedger(record=abort))
        self._drop_decided()
        return actions

    @property
    def _name(self) -> str:
        return f"process {self.process}"

    @property
    def _me(self) -> int:
        assert self.process is not None, "a stranger writes nothing but Hello"
        return self.process

    def _next_n(self) -> int:
        self._n += 1
        return self._n


def _timer(snapshot: SnapshotView) -> StartTimer:
    return StartTimer(epoch=snapshot.epoch, ttl_ms=snapshot.trigger.ttl_ms)


def _first(waits: Iterable[Waiting]) -> str:
    return str(next(iter(waits), "nothing that the ledger shows"))
