"""Describe what a process does between its cuts: events and their effects, each in its colour (R5, R6).

The hot path of a service: these methods run a few times per event, take plain arguments and do a dictionary operation
or two. Nothing is decided here. All that is white and done is counted (`colours`), what is torn is listed with the cuts
that are open; where one of those may have waited for that, the machine is asked to `_advance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from .actions import Action, SendMarkers
from .closing import OpenCuts
from .colours import Cause, Colours, Effect, Torn
from .cut import Positions
from .identity import EarlierLives
from .ledger_state import LedgerState
from .records import MIXED, OUT_OF_ORDER, SENT_BARE, TopicPartition

__all__ = ["Work"]

_NOTHING: Sequence[Action] = ()


class Work(ABC):
    """Events, sends and table accesses of one process, in their colours.

    Args:
        classic: red sends wait until the markers are out, as in 1985: then markers alone keep the cut safe.
    """

    def __init__(self, *, classic: bool) -> None:
        self.classic = classic
        self.marks = True  # False: headers alone do it, wherever this process sends
        self.ledger = LedgerState(history=False)
        self.colours = Colours()
        self.positions = Positions()
        self.open = OpenCuts()
        self.earlier = EarlierLives()
        self._batches: dict[Cause, tuple[Cause, ...]] = {}  # running event -> those that were started with it

    # -- what the rules do with it ----------------------------------------------------------------------------

    @abstractmethod
    def _advance(self) -> list[Action]:
        """Something white is done: whatever became possible by it."""

    @abstractmethod
    def _abort_open(
        self, above: int, upto: int, code: str, reason: str, culprit: str, *, captured: bool = False
    ) -> list[Action]:
        """Abort every open snapshot with an epoch in (above, upto]; report it of those, too, that are captured."""

    # -- events -----------------------------------------------------------------------------------------------

    def event_started(self, event: Cause) -> Sequence[Action]:
        """An agent starts on a record, or goes on with it: it has the colour of the first such instant for good."""
        in_order = self.positions.start(event.agent, event.tp, event.offset)
        void = _NOTHING if in_order or event in self.colours.running else self._void(event)
        self.colours.start(event)
        return void

    def _void(self, event: Cause) -> Sequence[Action]:
        """R3: an event starts only now that is past for some cuts. Nothing of it is in what they captured."""
        agent, tp, offset, _ = event
        channel = str(TopicPartition(*tp))  # a driver may have a type of its own for it
        what = f"agent {agent} was handed offset {offset} of {channel} after a later one: its cut is void"
        return [
            action
            for above, upto in self.positions.void(agent, tp, offset)
            for action in self._abort_open(above, upto, OUT_OF_ORDER, what, channel, captured=True)
        ]

    def batch_started(self, events: Sequence[Cause]) -> Sequence[Action]:
        """An agent is handed several records at once: they start now, or go on, in one colour, until each has ended.

        Those that have run before (something handled the records in flight into the batch) may have an earlier one:
        then the batch tears them (R6).
        """
        batch = tuple(events)
        actions: list[Action] = []
        for event in batch:
            actions += self.event_started(event)
            self._batches[event] = batch
        colours = {event: self.colours.running[event] for event in batch}
        latest = max(colours.values(), default=0)
        early = next((event for event, colour in colours.items() if colour < latest), None)
        return actions if early is None else [*actions, *self._torn(self.colours.tear(early, latest))]

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
        if self.earlier.busy:
            self.earlier.event_ended(event)
        return self._advance() if self.open.cuts else _NOTHING

    # -- torn events (R6) -------------------------------------------------------------------------------------

    def table_touched(self, event: Cause | None, table: str, key: object, *, write: bool) -> Sequence[Action]:
        """A running event reads or writes a table key; to be called only while `colours.tearing` (R6).

        `event` is None for what is written outside any event.
        """
        return self._torn(self.colours.touch(event, table, key, write=write))

    def table_read(self, event: Cause | None, table: str) -> Sequence[Action]:
        """A running event reads all of a table (iterates, counts); to be called only while `colours.tearing` (R6)."""
        return self._torn(self.colours.touch_whole(event, table))

    def value_held(self, event: Cause, table: str, key: object, *, unrecorded: bool) -> Sequence[Action]:
        """A running event has looked up a value that can change in place, at any time (R6).

        It stands for `table_touched`, too. `unrecorded`: a change of it leaves no record until it is set again (a list
        in memory); False where each change does (a table of sets).
        """
        return self._torn(self.colours.hold(event, table, key, unrecorded=unrecorded))

    def table_iterated(self, event: Cause, table: str) -> Sequence[Action]:
        """A running event has an iterator over a table, at any time; until `iterated`, or its end (R6).

        It stands for `table_read`, too.
        """
        return self._torn(self.colours.iterate(event, table))

    def iterated(self, event: Cause, table: str) -> None:
        """One of its iterators is at its end, or dropped."""
        self.colours.stop(event, table)

    def key_received(self, table: str, key: object, epoch: int) -> Sequence[Action]:
        """A key changes by what another process wrote (a global table), in its colour; the record itself was met."""
        return self._torn(self.colours.received(table, key, epoch))

    def table_rewritten(self, table: str) -> Sequence[Action]:
        """Any key of a table may have changed outside every event, in the colour of this process: partitions came or
        went with a rebalance (R6). A key that is known to have (a window that expires) is one that is touched."""
        return self._torn(self.colours.rewritten(table))

    def reply_taken(self, event: Cause, epoch: int) -> Sequence[Action]:
        """A running event takes in a reply of this colour; the record itself was met (R6)."""
        return self._torn(self.colours.tear(event, epoch))

    def _torn(self, torn: list[Torn]) -> Sequence[Action]:
        """R6: these events go on in red, and each with all of its batch."""
        if not torn:
            return _NOTHING
        for found in torn:  # it grows
            self.open.torn(found)
            for other in self._batches.get(found.event, ()):
                torn += self.colours.tear(other, found.by, found.table)
        return self._advance()

    # -- sends ------------------------------------------------------------------------------------------------

    def send_entered(self, event: Cause | None) -> Effect:
        """A send enters here, wherever it leaves later (R5)."""
        effect = self.colours.enter(event)
        if self.earlier.busy and event is not None and self.earlier.run(event):
            return effect._replace(cause=event)  # its effects are still its effects
        return effect

    def send_at_once(self, event: Cause | None, tp: TopicPartition) -> tuple[Effect, int]:
        """A send enters, is stamped and appended in one step: `send_entered`, `send_stamped` and `send_appended`. As
        nothing comes between, nothing waits for it but its acknowledgement.

        Returns:
            the effect, and its seq in `tp`.
        """
        effect, seq = self.colours.send(event, tp)
        if self.earlier.busy and event is not None and self.earlier.run(event):
            effect = effect._replace(cause=event)
        return effect, seq

    @staticmethod
    def send_undone(effect: Effect, tp: TopicPartition, seq: int) -> None:
        """There was no room for what was to be appended at once: it never entered."""
        Colours.unsend(effect, tp, seq)

    def send_entered_again(self, effect: Effect) -> Effect:
        """Return what entered under an earlier identity and has not left: it has the colour of the process, and its own
        cause."""
        return self.colours.enter(None)._replace(cause=effect.cause)

    def send_stamped(self, effect: Effect, tp: TopicPartition) -> int:
        """The seq of this send in `tp`. Stamp and append under one lock per partition."""
        assert effect.sent is self.colours.sent, (
            "a send of an earlier identity is entered again before it is stamped"
        )
        return self.colours.stamp(tp)

    def send_unstamped(self, effect: Effect, tp: TopicPartition, seq: int) -> None:
        """The append failed under the lock: the seq was never used."""
        Colours.unstamp(effect.sent[tp], seq)

    def send_appended(self, effect: Effect) -> Sequence[Action]:
        """The send has left in its order; its acknowledgement follows."""
        Colours.append(effect)
        return self._advance() if self.open.cuts else _NOTHING

    def send_acked(
        self, effect: Effect, tp: TopicPartition, seq: int, offset: int, count: int = 1
    ) -> Sequence[Action]:
        """The send lies at `offset`. So do `count - 1` of its colour right before it, with the seqs before its own."""
        Colours.ack(effect, tp, seq, offset, count)
        return self._advance() if self.open.cuts else _NOTHING

    def send_failed(
        self,
        effect: Effect,
        tp: TopicPartition,
        seq: int,
        reason: str,
        count: int = 1,
        *,
        undone: bool = False,
    ) -> Sequence[Action]:
        """R7: a white send that was refused means no `Closed`, for every open cut that it is white for.

        So have `count - 1` of its colour right before it, with the seqs before its own. `undone`: see `SeqRange`.
        """
        Colours.fail(effect, tp, seq, count, undone=undone)
        if not self.open.cuts:
            return _NOTHING
        what = f"a white send to {tp} was refused: {reason}"
        return [
            *self._abort_open(effect.epoch, self.colours.epoch, "send-failed", what, str(tp)),
            *self._advance(),
        ]

    def send_unsettled(
        self, effect: Effect, tp: TopicPartition, seq: int, reason: str, count: int = 1
    ) -> Sequence[Action]:
        """R7: the result of a send is unknown (a time-out, a lost connection): it may lie in the log, or still get
        there. No open cut that it is white for closes; for later ones what landed before their ends counts as sent.

        Of `count` sends, as in `send_failed`.
        """
        Colours.fail(effect, tp, seq, count, refused=False)
        if not self.open.cuts:
            return _NOTHING
        what = f"the result of a white send to {tp} is unknown: {reason}"
        return [
            *self._abort_open(effect.epoch, self.colours.epoch, "send-unsettled", what, str(tp)),
            *self._advance(),
        ]

    def send_withdrawn(self, effect: Effect) -> Sequence[Action]:
        """The send was given up before it was appended: nothing of it is in the log."""
        Colours.withdraw(effect)
        return self._advance() if self.open.cuts else _NOTHING

    def send_given_up(self, effect: Effect, why: str, *, culprit: str) -> Sequence[Action]:
        """R7: a send that entered will not leave as what it entered as; nothing of it is in the log."""
        Colours.withdraw(effect)
        if not self.open.cuts:
            return _NOTHING
        return [
            *self._abort_open(
                effect.epoch, self.colours.epoch, "send-failed", f"a white send {why}", culprit
            ),
            *self._advance(),
        ]

    # -- records without a header (R15) -----------------------------------------------------------------------

    def left_bare(self, tp: TopicPartition) -> Sequence[Action]:
        """A record leaves without a header. Anyone who reads it takes it for external, whatever its colour: no snapshot
        that may still be cut somewhere can vouch for it."""
        what = f"a record to {tp} left without our header, which would have made it larger than a limit"
        return self._abort_open(0, self.ledger.highest_epoch, SENT_BARE, what, str(tp))

    def mixed(self, above: int, upto: int, what: str, culprit: str) -> Sequence[Action]:
        """R15: something of colour `above` met something of colour `upto`, and neither can be torn: the other one
        belongs to another app of this process."""
        return self._abort_open(above, upto, MIXED, what, culprit, captured=True)

    def seqs_unused(self, tp: TopicPartition, first: int, last: int) -> None:
        """The records that were to have these seqs leave without them."""
        self.colours.unused(tp, first, last)

    def bare_settled(self, effect: Effect, tp: TopicPartition, end: int, count: int = 1) -> Sequence[Action]:
        """So many records without a header are acknowledged, all below `end`."""
        self.colours.bare(effect, tp, end, count)
        return self._advance() if self.open.cuts else _NOTHING

    def bare_failed(
        self,
        effect: Effect,
        tp: TopicPartition,
        reason: str,
        count: int = 1,
        *,
        refused: bool = True,
        undone: bool = False,
    ) -> Sequence[Action]:
        """R7: so many records without a header failed, as they would have without us. They are given seqs after all, by
        which their sender reports them. `refused`, `undone`: see `SeqRange`."""
        self.colours.bare(effect, tp, 0, count)
        self.colours.lost(tp, count, refused=refused, undone=undone)
        if not self.open.cuts:
            return _NOTHING
        what = f"a white send to {tp} failed: {reason}"
        return [
            *self._abort_open(effect.epoch, self.colours.epoch, "send-failed", what, str(tp)),
            *self._advance(),
        ]

    def marker_stamped(self, tp: TopicPartition) -> int:
        """The seq of a marker."""
        return self.colours.stamp(tp)

    def marker_unstamped(self, tp: TopicPartition, seq: int) -> None:
        """The marker was never appended."""
        Colours.unstamp(self.colours.sent[tp], seq)

    # -- classic mode -----------------------------------------------------------------------------------------

    def must_wait(self, effect: Effect) -> bool:
        """In classic mode: must this send wait for the markers of a cut that it is red for?"""
        return self.classic and any(
            epoch <= effect.epoch and not cut.markers_asked for epoch, cut in self.open.cuts.items()
        )

    def first_marker(self, effect: Effect, tp: TopicPartition) -> SendMarkers | None:
        """In classic mode: the marker that must lie in a partition before our first record there, if that is red.

        At a cut only the partitions that were sent to before get a marker; one sent to later for the first time has to
        inform its reader of the snapshot too, and of a process born red nobody could learn it otherwise.
        """
        if not self.classic or not self.marks or tp in self.colours.sent or not effect.epoch:
            return None
        if tp.topic not in self.ledger.marker_topics:
            return None
        return SendMarkers(epoch=effect.epoch, previous=0, tps=(tp,))
