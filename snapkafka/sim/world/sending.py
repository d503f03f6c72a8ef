"""The sends of a worker: from entry through the buffer and the outbox of the partition into the log, and acknowledged.

Each is a step of its own. The machine colours entering records, stamps leaving ones, and is fed the outcomes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from itertools import count

from snapkafka.drivers.machine_driver import MachineDriver
from snapkafka.protocol.actions import SendMarkers
from snapkafka.protocol.colours import Effect
from snapkafka.protocol.events import MarkerSettled
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.records import NOBODY, TopicPartition
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.sim.judge import Execution

from .broker_log import ABORTED, OPEN, SimStored
from .history import SimRunning
from .surroundings import Surroundings
from .world_plan import App


@dataclass(slots=True, eq=False)
class SimSending:
    """A record in flight: in the buffer, in the outbox of its partition, in the log but not acknowledged."""

    tp: TopicPartition
    record: SimStored
    effect: Effect | None = None  # None: a marker
    epoch: int = 0
    execution: Execution | None = None
    offset: int = -1
    bare: bool = False  # its worker runs without snapkafka, and may join later
    outgrown: bool = False  # it is too large with our header (R15)

    @property
    def stamped(self) -> bool:
        return not (self.bare or self.outgrown)


class Sender(MachineDriver):
    """The part of a process that sends."""

    #: A cut takes a microsecond here.
    clock_ns = count(step=1_000).__next__

    def __init__(self, world: Surroundings, number: int, app: App) -> None:
        asks = app.name in world.plan.states
        super().__init__(WorkerProtocol(hear=world.plan.hear, asks_state=asks))
        self.world, self.number, self.app = world, number, app
        self.buffer: deque[SimSending] = deque()
        self.outbox: dict[TopicPartition, deque[SimSending]] = {}
        self.unacked: dict[TopicPartition, deque[SimSending]] = {}
        self.transaction: list[SimSending] = []
        self.fenced: set[int] = set()  # executions of which nothing will be committed any more
        self.bare = False  # a worker without snapkafka, or one that goes on without taking part

    @abstractmethod
    def _settled(self, sending: SimSending) -> None:
        """Note that a send is settled for good."""

    def send(
        self,
        tp: TopicPartition,
        step: int,
        running: SimRunning | None,
        *,
        key: str = "",
        buffered: bool = False,
        reply_to: tuple[int, int] | None = None,
    ) -> None:
        cause = running.cause if running is not None else None
        seq = None
        if buffered or self.machine.process is None:
            effect = self.machine.send_entered(cause)
        else:
            effect, seq = self.machine.send_at_once(cause, tp)
        if effect.epoch < self.machine.colours.epoch:
            self.world.count("white_sends_while_red")
        record = SimStored(
            cause=None if effect.cause is None else (effect.cause.tp, effect.cause.offset),
            key=key,
            value=step,
            hops=self.world.hops_left(running.hops - 1 if running is not None else 1),
            reply_to=reply_to,
            step=step,
        )
        sending = SimSending(tp, record, effect, execution=running.execution if running is not None else None)
        if running is not None:
            running.unacked += 1
        if seq is not None:
            self._left(sending, effect.epoch, seq)
        elif buffered:
            self.buffer.append(sending)
        else:
            self._leave(sending)

    def _stamp(self, _: object) -> None:
        self._leave(self.buffer.popleft())

    def _leave(self, sending: SimSending) -> None:
        assert sending.effect is not None
        if self.bare:
            self.do(self.machine.send_appended(sending.effect))
            sending.bare, sending.record.cause = True, None
            self.outbox.setdefault(sending.tp, deque()).append(sending)
            return
        if sending.effect.sent is not self.machine.colours.sent:
            self.machine.send_withdrawn(sending.effect)  # it entered in an earlier life
            sending.effect = self.machine.send_entered_again(sending.effect)
        assert self.machine.process is not None, "who has no id takes no step that sends"
        effect, tp = sending.effect, sending.tp
        if not self.world.plan.exactly_once and self.world.chance("outgrow"):
            self._outgrow(sending, effect)
            return
        self._left(sending, effect.epoch, self.machine.send_stamped(effect, tp))
        self.do(self.machine.send_appended(effect))

    def _outgrow(self, sending: SimSending, effect: Effect) -> None:
        """Send a record without our header, as it does not fit with it (R15)."""
        self.world.count("outgrown")
        sending.outgrown, sending.record.cause = True, None
        self.outbox.setdefault(sending.tp, deque()).append(sending)
        self.do(self.machine.left_unstamped(sending.tp))
        self.do(self.machine.send_appended(effect))

    def _left(self, sending: SimSending, epoch: int, seq: int) -> None:
        self._stamped(sending.record, epoch, seq)
        self.outbox.setdefault(sending.tp, deque()).append(sending)

    def _append(self, tp: TopicPartition) -> None:
        world, sending = self.world, self.outbox[tp].popleft()
        of_app = sending.effect is not None and sending.stamped
        fenced = sending.execution is not None and sending.execution.number in self.fenced
        if of_app and (fenced or world.chance("fail-send")):
            world.count("failed_sends")
            self._lose(sending, "the broker refused it", undone=fenced)
            return
        transactional = world.plan.exactly_once and sending.execution is not None
        if of_app and not transactional and world.chance("time-out"):
            self._time_out(sending)
            return
        if transactional:
            sending.record.state = OPEN
            self.transaction.append(sending)
        sending.offset = world.broker.append(tp, sending.record)
        if not sending.stamped:
            world.broker.unstamped[tp, sending.offset] = NOBODY if sending.bare else self.machine.author
            world.counts["bare_sends"] += sending.bare
        if sending.record.step >= 0:
            world.history.steps[sending.record.step].record = (tp, sending.offset)
        if of_app and not transactional and world.chance("duplicate"):
            world.count("duplicates")
            sending.offset = world.broker.append(tp, sending.record)
        self.unacked.setdefault(tp, deque()).append(sending)

    def _lose(self, sending: SimSending, why: str, *, undone: bool) -> None:
        """Fail a send, and notify its sender. `undone`: its transaction was aborted with it."""
        assert sending.effect is not None
        record, outcome = sending.record, SendOutcome.UNDONE if undone else SendOutcome.REFUSED
        self.world.history.fail(record.step)
        if not undone:
            self._reported_failure(sending)
        self._settled(sending)
        self.do(self.machine.settled(sending.effect, sending.tp, record.seq, outcome, reason=why))

    def _reported_failure(self, sending: SimSending) -> None:
        record = sending.record
        self.world.lost.add((record.ledger, record.process, sending.tp, record.epoch, record.seq))
        self.world.reported_failed.add((record.ledger, record.process, sending.tp, record.seq))

    def _time_out(self, sending: SimSending) -> None:
        """Leave a send without an outcome: it may be in the log, get there later, or never."""
        assert sending.effect is not None
        world, record = self.world, sending.record
        world.count("timed_out")
        world.history.fail(record.step)
        fate = world.rng.choice(("there", "later", "never"))
        self._reported_failure(sending)
        if fate == "there":
            world.append_late(sending.tp, record)
        elif fate == "later":
            world.in_queue.append((sending.tp, record))
        self._settled(sending)
        self.do(self.machine.settled(sending.effect, sending.tp, record.seq, SendOutcome.UNKNOWN))

    def fence(self) -> None:
        """Fence a process: its inputs are assigned to another, which has aborted its open transactions; nothing of
        what still runs will count."""
        for sending in self._aborted():
            self._lose(sending, "its transaction was aborted", undone=True)

    def abort_transaction(self) -> None:
        """Abort its own transaction: what it has sent there is undone, the latest first."""
        for sending in reversed(self._aborted()):
            assert sending.effect is not None and sending.execution is not None
            sending.execution.undone = self.machine.colours.epoch
            self._settled(sending)
            self.do(self.machine.settled(sending.effect, sending.tp, sending.record.seq, SendOutcome.ABORTED))

    def _aborted(self) -> list[SimSending]:
        """Abort the open transaction; return its sends."""
        open_sends, self.transaction = self.transaction, []
        for sending in open_sends:
            sending.record = self.world.broker.end(sending.tp, sending.offset, ABORTED)
            self.unacked[sending.tp].remove(sending)
        return open_sends

    @staticmethod
    def acknowledged(sending: SimSending) -> bool:
        """Return whether a send counts; in a transaction only once that has ended."""
        return sending.record.state != OPEN

    def _ack(self, tp: TopicPartition) -> None:
        sending = self.unacked[tp].popleft()
        effect, seq = sending.effect, sending.record.seq if sending.stamped else None
        if effect is None:
            self.feed(MarkerSettled(epoch=sending.epoch, tp=tp, offset=sending.offset))
            return
        if seq is None or not self.world.plan.exactly_once or sending.execution is None:
            self._settled(sending)
        self.do(self.machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=sending.offset))

    def send_markers(self, action: SendMarkers) -> None:
        """Put them into the outbox of each partition."""
        for tp in action.tps:
            seq = self.machine.colours.stamp(tp)
            record = self._stamped(SimStored(marker=True, previous=action.previous), action.epoch, seq)
            self.outbox.setdefault(tp, deque()).append(SimSending(tp, record, epoch=action.epoch))

    def _stamped(self, record: SimStored, epoch: int, seq: int) -> SimStored:
        record.process, record.ledger = self.machine.author, self.world.broker.ledger_id
        record.epoch, record.seq = epoch, seq
        return record
