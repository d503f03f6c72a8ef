"""The work of a process between its cuts: events and their effects, each in its colour (R5, R6).

The hot path of a service: these methods run a few times per event, take plain arguments and do a dictionary operation
or two. Nothing is decided here. Work is counted by colour (`colours`), what happens most often right here, and torn
events are listed with the open cuts; if one of those may have waited for that, the machine is asked to `_advance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum

from .actions import Action
from .aligner import Aligner
from .closing import OpenCuts
from .colours import Cause, Colours, Effect, Torn, effect_of
from .cut import Positions
from .ledger_state import LedgerState
from .records import OUT_OF_ORDER, SENT_BARE, TopicPartition
from .sent import Sent

_NOTHING: Sequence[Action] = ()


class SendOutcome(Enum):
    """What became of a send, as a clause of a reason. `UNKNOWN`: it may be in the log, or still get there. `UNDONE`:
    with its cause, positions included; `ABORTED`: likewise, and nobody reads its record: its seq is given again, to be
    reported for the latest seq of a partition first."""

    ACKED = "was acknowledged"
    REFUSED = "was refused"
    UNKNOWN = "has an unknown result"
    UNDONE = "was undone"
    ABORTED = "was undone with its transaction"


class Work(ABC):
    """The events, sends and table accesses of one process, in their colours."""

    def __init__(self) -> None:
        self.marks = True  # False: headers alone do it, wherever this process sends
        self.ledger = LedgerState(history=False)
        self.colours = Colours()
        self.positions = Positions()
        self.open = OpenCuts()
        self.aligner = Aligner()
        self.aligning = self.aligner.open  # by epoch
        #: Identities before this one with work in flight: it has no colour, so no cut can be proven meanwhile (R12).
        self.earlier: list[Colours] = []
        self._batches: dict[Cause, tuple[Cause, ...]] = {}  # running event -> those that were started with it

    # -- what the rules do with it ----------------------------------------------------------------------------

    @abstractmethod
    def _advance(self) -> list[Action]:
        """Return the actions that became possible because something white is done."""

    @abstractmethod
    def _abort_open(
        self, above: int, upto: int, code: str, reason: str, culprit: str, *, captured: bool = False
    ) -> list[Action]:
        """Abort every open snapshot with an epoch in (above, upto]; with `captured`, note the captured ones as well."""

    # -- events -----------------------------------------------------------------------------------------------

    def event_started(self, event: Cause) -> Sequence[Action]:
        """Note that an agent starts, or continues, a record: it has the colour of the first such instant for good."""
        in_order, colours = self.positions.start(event.agent, event.tp, event.offset), self.colours
        if event in colours.running:
            return _NOTHING
        void = _NOTHING if in_order else self._void(event)
        colours.running[event] = colours.epoch
        colours.tallies[colours.epoch].running += 1
        return void

    def _void(self, event: Cause) -> Sequence[Action]:
        """Report an event that starts only now and that some cuts have as started (R3). What they captured contains
        nothing of it."""
        agent, tp, offset, _ = event
        channel = str(TopicPartition(*tp))  # a driver may have a type of its own for it
        what = f"agent {agent} was handed offset {offset} of {channel} after a later one: its cut is void"
        return [
            action
            for cut in self.positions.void(agent, tp, offset)
            for action in self._abort_open(
                cut.previous, cut.epoch, OUT_OF_ORDER, what, channel, captured=True
            )
        ]

    def batch_started(self, events: Sequence[Cause]) -> Sequence[Action]:
        """Note that an agent is handed several records at once: they start now, or continue, in one colour, until each
        has ended.

        Records that have run before (a stage handled them before the batch) may have an earlier colour: then the batch
        tears them (R6).
        """
        batch = tuple(events)
        actions: list[Action] = []
        for event in batch:
            actions += self.event_started(event)
            self._batches[event] = batch
        colours = {event: self.colours.running[event] for event in batch}
        latest = max(colours.values(), default=0)
        early = next((event for event, colour in colours.items() if colour < latest), None)
        return actions if early is None else [*actions, *self.torn(self.colours.tear(early, latest))]

    def event_ended(self, event: Cause) -> Sequence[Action]:
        """Note that an agent is done with a record."""
        self.colours.end(event)
        if self._batches:
            self._batches.pop(event, None)
        for earlier in self.earlier:
            earlier.end(event)
        return self._advance() if self.open.cuts or self.aligning else _NOTHING

    # -- torn events (R6) -------------------------------------------------------------------------------------

    def torn(self, torn: list[Torn]) -> Sequence[Action]:
        """Let the events that `colours` found torn (`touch` and its neighbours) continue in red (R6), each with all of
        its batch."""
        if not torn:
            return _NOTHING
        for found in torn:  # it grows
            self.open.torn(found)
            for other in self._batches.get(found.event, ()):
                torn += self.colours.tear(other, found.by, found.table)
        return self._advance()

    # -- sends ------------------------------------------------------------------------------------------------

    def send_entered(self, event: Cause | None) -> Effect:
        """Enter a send (R5), wherever it leaves later."""
        effect = self.colours.enter(event)
        if event is not None and any(event in earlier.running for earlier in self.earlier):
            return effect._replace(cause=event)  # its effects are still its effects
        return effect

    def send_at_once(self, event: Cause | None, tp: TopicPartition) -> tuple[Effect, int]:
        """Enter, stamp and append a send in one step: `send_entered`, `send_stamped` and `send_appended`. Nothing can
        come between, so only its acknowledgement is waited for.

        Returns:
            the effect, and its seq in `tp`.
        """
        colours = self.colours
        epoch, cause = colours.running.get(event, -1) if event is not None else -1, event
        if epoch < 0:
            epoch = colours.epoch
            if not (event is not None and any(event in earlier.running for earlier in self.earlier)):
                cause = None
        tally = colours.tallies[epoch]
        tally.unacked += 1
        sent = colours.sent.get(tp)
        if sent is None:
            sent = colours.sent[tp] = Sent()
        seq = sent.next_seq
        sent.next_seq = seq + 1
        return effect_of((epoch, cause, tally, colours.sent)), seq

    @staticmethod
    def send_undone(effect: Effect, tp: TopicPartition, seq: int) -> None:
        """Undo `send_at_once`: there was no room to append the record, so it never entered."""
        effect.tally.unacked -= 1
        effect.sent[tp].unused(seq, seq)

    def send_entered_again(self, effect: Effect) -> Effect:
        """Enter again what entered under an earlier identity and has not left: it gets the colour of the process, and
        keeps its cause."""
        return self.colours.enter(None)._replace(cause=effect.cause)

    def send_stamped(self, effect: Effect, tp: TopicPartition) -> int:
        """Return the seq of this send in `tp`. Stamp and append under one lock per partition."""
        assert effect.sent is self.colours.sent, (
            "a send of an earlier identity is entered again before it is stamped"
        )
        return self.colours.stamp(tp)

    def send_unstamped(self, effect: Effect, tp: TopicPartition, seq: int) -> None:
        """Take back a seq: the append failed under the lock, so it was never used."""
        effect.sent[tp].unused(seq, seq)

    def send_appended(self, effect: Effect) -> Sequence[Action]:
        """Note that the send has left in its order; its acknowledgement follows."""
        effect.tally.unappended -= 1
        return self._advance() if self.open.cuts else _NOTHING

    def settled(
        self,
        effect: Effect,
        tp: TopicPartition,
        seq: int | None,
        outcome: SendOutcome,
        *,
        offset: int = -1,
        count: int = 1,
        reason: str = "",
    ) -> Sequence[Action]:
        """Note what became of `count` sends of one colour in a row (R7). No open cut for which they are white is
        reported while one of them is not in the log, or may not be.

        Args:
            seq, offset: of the last one; the others have those right before. `seq`: None: they left unstamped. If they
                failed, they get seqs after all, by which their sender reports them.
        """
        effect.tally.unacked -= count
        sent = self.colours.sent_to(tp) if seq is None else effect.sent[tp]
        if outcome is SendOutcome.ACKED:
            if seq is None:
                sent.bare_end = max(sent.bare_end, offset + 1)
            else:
                sent.acked(effect.epoch, seq, offset)
            return self._advance() if self.open.cuts else _NOTHING
        if outcome is SendOutcome.ABORTED and seq is not None:
            sent.unused(seq - count + 1, seq)
        else:
            if seq is None:
                sent.next_seq += count
                seq = sent.next_seq - 1
            undone = outcome in (SendOutcome.UNDONE, SendOutcome.ABORTED)
            sent.failed(seq - count + 1, seq, refused=outcome is not SendOutcome.UNKNOWN, undone=undone)
        code = "send-unsettled" if outcome is SendOutcome.UNKNOWN else "send-failed"
        return self._white_lost(
            effect, code, f"a send to {tp} from before the cut {outcome.value}: {reason}", str(tp)
        )

    def send_withdrawn(self, effect: Effect) -> Sequence[Action]:
        """Withdraw a send that was given up before it was appended: nothing of it is in the log."""
        Colours.withdraw(effect)
        return self._advance() if self.open.cuts else _NOTHING

    def send_given_up(self, effect: Effect, why: str, *, culprit: str) -> Sequence[Action]:
        """Give up a send that will not leave in the colour in which it entered (R7); nothing of it is in the log."""
        Colours.withdraw(effect)
        return self._white_lost(effect, "send-failed", f"a send from before the cut {why}", culprit)

    def _white_lost(self, effect: Effect, code: str, what: str, culprit: str) -> Sequence[Action]:
        """Fail the open cuts for which a send is white that will not count as sent (R7)."""
        if not self.open.cuts:
            return _NOTHING
        failed = self._abort_open(effect.epoch, self.colours.epoch, code, what, culprit)
        return [*failed, *self._advance()]

    # -- records without a header (R15) -----------------------------------------------------------------------

    def left_unstamped(self, tp: TopicPartition) -> Sequence[Action]:
        """Note that a record leaves without a header. Its readers take it for external, whatever its colour: no
        snapshot that may still be cut somewhere can vouch for it."""
        what = f"a record to {tp} was sent without its header: for its size, its order, or before its sender had an id"
        return self._abort_open(0, self.ledger.highest_epoch, SENT_BARE, what, str(tp))
