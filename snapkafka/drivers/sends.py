"""The sends of one process: each leaves with the colour of its event, a seq and a stamp, and its outcome is fed back.

A client calls `stamp` in the instant in which it appends a record, so seqs are in the order of the log (R7). What
has to wait before that enters first (`entered`) and keeps its colour and its cause, whatever happens meanwhile (R5).
Markers are appended before the first red record of their partition, and soon in any case.

A producer's time-out does not mean that the record is absent: the request may wait in the broker's queue, and be
served after its sender has given up. Only an error that says that the record can never be appended is a refusal. After
any other error the outcome is unknown (R7).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiokafka import errors

from snapkafka.protocol import Cause, Effect, Event, MarkerSettled, SendMarkers, SendOutcome, TopicPartition
from snapkafka.wire import headers as wire

from .patches import contained
from .process import Process

#: The record itself is at fault, so no earlier try of the same batch can have been appended either. (A record without a
#: key in a compacted topic is refused as well; aiokafka has no error of its own for that, so it counts as unknown.)
REFUSED: Final = (
    *(errors.InvalidTimestampError, errors.InvalidTopicError, errors.MessageSizeTooLargeError),
    *(errors.PolicyViolationError, errors.RecordListTooLargeError, errors.UnsupportedForMessageFormatError),
)
#: Who is fenced may not commit, and whatever was in his transaction is aborted.
FENCED: Final = (errors.InvalidProducerEpoch, errors.InvalidTxnState, errors.ProducerFenced)
ACKED: Final = (SendOutcome.ACKED, "")
#: The work in which a fault of ours is contained.
RECORDING: Final = "to record a send"

#: The stamp of a record that is about to be appended: its effect, its seq and its header (None: it leaves without one),
#: and what it waits as (None: it enters in this instant). A class would cost as much as the rest of it.
Stamp = tuple["Effect", int | None, bytes | None, "Waiting | None"]


class Unacknowledged(NamedTuple):
    """The reason why a send was not acknowledged, and what became of it."""

    outcome: SendOutcome
    reason: str


ABORTED: Final = Unacknowledged(SendOutcome.ABORTED, "its transaction was aborted")


def outcome_of(error: BaseException | None) -> Unacknowledged:
    """Return why a batch was not acknowledged; None: the broker has reported no offset."""
    if error is None:
        return Unacknowledged(SendOutcome.UNKNOWN, "the broker reported no offset (acks=0?)")
    return Unacknowledged(
        SendOutcome.REFUSED if isinstance(error, REFUSED) else SendOutcome.UNKNOWN, repr(error)
    )


def not_committed(error: BaseException) -> Unacknowledged:
    """Return the outcome of the sends of a transaction whose commit raised this: they are aborted, or it is unknown."""
    aborted = SendOutcome.ABORTED if isinstance(error, FENCED) else SendOutcome.UNKNOWN
    return Unacknowledged(aborted, f"its transaction was not committed: {error!r}")


class Partition:
    """The state of sending to one partition. `due`: markers that precede its next red record, the lowest epoch first;
    `last`: the batch that got the latest stamp there."""

    __slots__ = ("check", "due", "last", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp, self.check = tp, wire.tp_check(tp.topic, tp.partition)
        self.due: list[SendMarkers] = []
        self.last: Any = None


class Partitions(dict[tuple[str, int], Partition]):
    """The state of sending to each partition, by topic and number."""

    def __missing__(self, tp: tuple[str, int]) -> Partition:
        partition = self[tp] = Partition(TopicPartition(*tp))
        return partition


@dataclass(slots=True, eq=False)
class Waiting:
    """A record that has entered and is not appended yet; `effect`: None: it is, or nothing is known of it."""

    effect: Effect | None


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive records of one colour, or a marker, whose outcome is awaited.

    Attributes:
        effect: of the first; its tally counts them together.
        last: the last seq; None: they have no stamp.
        place: of the last one in its batch.
        marker: its epoch, and how its outcome is reported.
        held: by their transaction, which is open; `outcome`: as the client reports it meanwhile.
        over: nothing more is awaited of them.
    """

    tp: TopicPartition
    effect: Effect | None
    last: int | None
    place: int = 0
    marker: tuple[int, Callable[[Event], None]] | None = None
    count: int = 1
    held: bool = False
    outcome: tuple[int, Unacknowledged | None] | None = None
    over: bool = False


class Transaction:
    """The sends of a client with transactions: their outcome counts when the transaction ends (R7)."""

    def __init__(self, sends: Sends) -> None:
        self._sends = sends
        self._runs: list[Run] = []

    def hold(self, run: Run) -> None:
        """Hold the outcome of what was appended back."""
        run.held = True
        self._runs.append(run)

    def ended(self, failure: Unacknowledged | None = None) -> None:
        """Settle what was sent in it. `failure`: why it does not count; None: it does."""
        runs, self._runs = self._runs, []
        for run in reversed(runs):  # the latest seq first, for those that are given again
            run.held = False
            if failure is not None:
                self._sends.settled(run, -1, failure)
                run.over = True
            elif run.outcome is not None:
                self._sends.settled(run, *run.outcome)


class Sends:
    """The sending side of one process, whichever client appends.

    Args:
        host: whose machine gives colours and seqs.
        cause: returns the event that runs here and now.
    """

    def __init__(self, host: Process, cause: Callable[[], Cause | None]) -> None:
        self.host, self.cause = host, cause
        self._driver = host  # as `contained` knows it
        self._machine, self._with_cause = host.machine, host.config.cause
        self.partitions = Partitions()
        #: The record that a client is about to append here: what has to wait takes it along.
        self.waiting: ContextVar[Waiting | None] = ContextVar("snapkafka_waiting", default=None)
        self._logged: set[str] = set()  # topics with unstamped records

    @contained(RECORDING)
    def enter(self) -> Effect | None:
        """Return the effect of what is sent here and now; None: it is unknown (R15)."""
        return None if self.host.absent else self._machine.send_entered(self.cause())

    @contextlib.contextmanager
    def entered(self, effect: Effect | None) -> Iterator[Waiting]:
        """Send a record that has entered inside this block; it is withdrawn if it was not appended."""
        waiting, token = Waiting(effect), None
        try:
            token = self.waiting.set(waiting)
        except Exception as error:
            self._driver.stand_down(RECORDING, error)
        try:
            yield waiting
        finally:
            if token is not None:
                self.waiting.reset(token)
            if waiting.effect is not None:
                self.withdraw(waiting.effect)

    @contained(RECORDING)
    def withdraw(self, effect: Effect) -> None:
        """Take an effect back: its record is not sent, or not as one of ours."""
        if not self.host.absent:
            self.host.do(self._machine.send_withdrawn(effect))

    # -- stamp and append ---------------------------------------------------------------------------------------------

    def stamp(self, partition: Partition, batch: Any, add_marker: Callable[[], bool]) -> Stamp | None:
        """Stamp a record that is appended to a batch in this instant; None: it leaves as without us, and counts for
        nothing. `add_marker`: appends the first marker that is due, if there is room for it (else: `FullError`)."""
        machine, waiting = self._machine, self.waiting.get()
        if self.host.absent:
            return None
        effect = None if waiting is None else waiting.effect
        # First, as it may start what has waited, which asks for markers.
        cause = self.cause() if effect is None else None
        last = partition.last
        if machine.process is None or not (
            last is batch or last is None or last.client is batch.client or last.future.done()
        ):
            return self._unstamped(waiting, effect, cause)
        if waiting is not None and effect is not None and effect.sent is not machine.colours.sent:
            # It entered under an earlier identity.
            self.host.do(machine.send_withdrawn(effect))
            effect = waiting.effect = machine.send_entered_again(effect)
        if partition.due:
            colours = machine.colours
            epoch = colours.running.get(cause, colours.epoch) if effect is None else effect.epoch  # type: ignore[arg-type]
            while partition.due and epoch >= partition.due[0].epoch:
                if not add_marker():
                    raise FullError
        if effect is None:
            effect, seq = machine.send_at_once(cause, partition.tp)
            waiting = None
        else:
            seq = machine.send_stamped(effect, partition.tp)
        partition.last = batch
        ledger, check, (epoch, cause, _, _) = self.host.ledger_id, partition.check, effect
        if cause is None or not self._with_cause:
            header = wire.stamp(ledger, check, epoch, machine.process, seq)
        else:
            _, (topic, number), offset, _ = cause
            header = wire.stamp_with_cause(
                ledger, check, epoch, machine.process, seq, wire.topic_check(topic), number, offset
            )
        return effect, seq, header, waiting

    def _unstamped(self, waiting: Waiting | None, effect: Effect | None, cause: Cause | None) -> Stamp:
        """Return what a record without a stamp counts as."""
        if self._machine.process is None:
            self.host.follower.without_identity()
        if effect is None:
            effect, waiting = self._machine.send_entered(cause), None
        return effect, None, None, waiting

    def not_appended(self, partition: Partition, stamp: Stamp) -> None:
        """Take a stamp back in the same instant: the record was not appended, and may be later."""
        effect, seq, _, waiting = stamp
        if seq is None:
            if waiting is None:
                self.host.do(self._machine.send_withdrawn(effect))
        elif waiting is None:
            self._machine.send_undone(effect, partition.tp, seq)
        else:
            self._machine.send_unstamped(effect, partition.tp, seq)

    def appended(self, partition: Partition, stamp: Stamp) -> None:
        """Note that a record is appended."""
        effect, seq, _, waiting = stamp
        if waiting is not None:
            waiting.effect = None
        elif seq is not None:
            return
        if actions := self._machine.send_appended(effect):
            self.host.do(actions)
        if seq is None:
            self.left_unstamped(partition.tp, 1)

    def left_unstamped(self, tp: TopicPartition, count: int) -> None:
        """Note that records leave without our header (R15)."""
        self.host.metrics.count("bare", number=count)
        self.host.do(self._machine.left_unstamped(tp))
        if tp.topic not in self._logged:
            self._logged.add(tp.topic)
            self.host.log(
                "records to %s were sent without the header of snapkafka, for which the topic has no room, or which"
                " could not be in order there; open snapshots fail (sent-bare); raise max.message.bytes of the topic"
                " by 64 bytes, and write to it by one client",
                tp,
            )

    def settled(self, run: Run, offset: int, failure: Unacknowledged | None) -> None:
        """Take in the outcome of what was appended: the offset of the last record, or why it has none."""
        if run.held:
            run.outcome = offset, failure
            return
        if run.over or self.host.absent:
            return
        if run.marker is not None:
            epoch, answer = run.marker
            if failure is None and run.last is not None:
                answer(MarkerSettled(epoch=epoch, tp=run.tp, offset=offset))
            else:
                why = "it left without its header" if failure is None else failure.reason
                seq = -1 if run.last is None else run.last
                answer(MarkerSettled(epoch=epoch, tp=run.tp, failure=why, seq=seq))
            return
        assert run.effect is not None
        outcome, reason = failure or ACKED
        actions = self._machine.settled(
            run.effect, run.tp, run.last, outcome, offset=offset, count=run.count, reason=reason
        )
        if actions:
            self.host.do(actions)

    def unstamp(self, runs: list[Run]) -> None:
        """Give back the seqs of records that are sent again without their headers."""
        stamped = [run for run in runs if run.last is not None]
        for run in reversed(stamped):
            assert run.last is not None
            if run.effect is None or run.effect.sent is self._machine.colours.sent:
                self._machine.colours.sent_to(run.tp).unused(run.last - run.count + 1, run.last)
            run.last = None
        self.left_unstamped(stamped[0].tp, sum(run.count for run in stamped))

    def marker(self, partition: Partition, action: SendMarkers) -> tuple[bytes, bytes, Run]:
        """Return the key and the header of a marker that is appended now, and what is awaited of it."""
        machine = self._machine
        assert machine.process is not None
        seq = machine.colours.stamp(partition.tp)
        header = wire.marker(
            self.host.ledger_id, partition.check, action.epoch, machine.process, seq, action.previous
        )
        run = Run(partition.tp, None, seq, marker=(action.epoch, self.host.answering()))
        return wire.marker_key(machine.process), header, run


class FullError(Exception):
    """There is no room for a marker: the client waits, and asks again."""
