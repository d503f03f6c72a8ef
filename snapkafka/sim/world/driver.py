"""The driver of a process of the simulator: its sends, and the ledger as it uses that.

A record goes from its entry through the buffer and the outbox of its partition into the log, and is acknowledged. A
ledger record is written, and read; or its reader goes on without it (R15). Each of these is a step of its own. The
machine is fed what comes of it, as by any driver.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from itertools import count

from snapkafka.drivers.machine_driver import MachineDriver
from snapkafka.protocol.actions import Hold, SendMarkers, StartTimer
from snapkafka.protocol.colours import Effect
from snapkafka.protocol.events import (
    Absence,
    Joined,
    LedgerRead,
    MarkerMet,
    MarkerSettled,
    RanWithout,
    RecordMet,
    TimerExpired,
)
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.records import (
    NOBODY,
    Hello,
    InputTopic,
    LedgerRecord,
    Report,
    Table,
    TailLost,
    TopicPartition,
)
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.sim.judge import Execution

from .broker_log import ABORTED, OPEN, SimStored
from .cluster import Cluster
from .history import SimRunning
from .world_plan import App


@dataclass(slots=True, eq=False)
class SimSending:
    """A record in flight: in the buffer, in the outbox of its partition, in the log but not acknowledged."""

    tp: TopicPartition
    record: SimStored
    effect: Effect | None = None  # None: a marker
    execution: Execution | None = None
    offset: int = -1
    #: Who answers for it where it has no header: nobody, as its worker runs without snapkafka and may join later; or
    #: its process, as it is too large with one (R15).
    unstamped: int | None = None


class Driver(MachineDriver):
    """The part of a process that sends, and uses the ledger."""

    #: A cut takes a microsecond here.
    clock_ns = count(step=1_000).__next__

    def __init__(self, world: Cluster, number: int, app: App) -> None:
        asks = app.name in world.plan.states
        super().__init__(WorkerProtocol(hear=world.plan.hear, asks_state=asks))
        self.world, self.number, self.app = world, number, app
        self.buffer: deque[SimSending] = deque()
        self.outbox: dict[TopicPartition, deque[SimSending]] = {}
        self.unacked: dict[TopicPartition, deque[SimSending]] = {}
        self.transaction: list[SimSending] = []
        self.fenced: set[int] = set()  # executions of which nothing will be committed any more
        self.launched_at = 0  # how far the ledger was written, of who says `Hello` late
        self.read = self.seen = 0  # of the ledger; `seen`: read, or written and acknowledged
        self.lost: int | None = None  # from here on, of that, the ledger has lost it
        self.deaf = False  # it reads the ledger no more
        self.posts: deque[LedgerRecord] = deque()
        self.timers: set[int] = set()
        #: Up to where the ledger should have been read, and did not answer (R15).
        self.missed: int | None = None
        self.impatient = False  # its inputs run unannounced
        self.hung = False  # the ledger answers nothing, and nothing arrives there
        self.late = False  # the ledger does not take its Hello yet, and it has not waited for that
        self.greeting = False  # it said so late, and has not read it yet: it has no id to say `Bye` with
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
        machine, tp = self.machine, sending.tp
        if not self.bare and sending.effect.sent is not machine.colours.sent:
            machine.send_withdrawn(sending.effect)  # it entered in an earlier life
            sending.effect = machine.send_entered_again(sending.effect)
        if self.bare or (not self.world.plan.exactly_once and self.world.chance("outgrow")):
            sending.unstamped, sending.record.cause = NOBODY if self.bare else machine.author, None
            self.outbox.setdefault(tp, deque()).append(sending)
            self.do([] if self.bare else [*machine.left_unstamped(tp)])
        else:
            assert machine.process is not None, "who has no id takes no step that sends"
            self._left(sending, sending.effect.epoch, machine.send_stamped(sending.effect, tp))
        self.do(machine.send_appended(sending.effect))

    def _left(self, sending: SimSending, epoch: int, seq: int) -> None:
        """Stamp a record that leaves."""
        record = sending.record
        record.process, record.ledger = self.machine.author, self.world.broker.ledger_id
        record.epoch, record.seq = epoch, seq
        self.outbox.setdefault(sending.tp, deque()).append(sending)

    def _append(self, tp: TopicPartition) -> None:
        world, sending = self.world, self.outbox[tp].popleft()
        of_app = sending.effect is not None and sending.unstamped is None
        fenced = sending.execution is not None and sending.execution.number in self.fenced
        if of_app and (fenced or world.chance("fail-send")):
            self._lose(sending, SendOutcome.UNDONE if fenced else SendOutcome.REFUSED)
            return
        transactional = world.plan.exactly_once and sending.execution is not None
        if of_app and not transactional and world.chance("time-out"):
            self._lose(sending, SendOutcome.UNKNOWN)
            return
        if transactional:
            sending.record.state = OPEN
            self.transaction.append(sending)
        sending.offset = world.broker.append(tp, sending.record)
        if sending.unstamped is not None:
            world.broker.unstamped[tp, sending.offset] = sending.unstamped
            world.counts["bare_sends"] += sending.unstamped == NOBODY
        if sending.record.step >= 0:
            world.history.steps[sending.record.step].record = (tp, sending.offset)
        if of_app and not transactional and world.chance("duplicate"):
            sending.offset = world.broker.append(tp, sending.record)
        self.unacked.setdefault(tp, deque()).append(sending)

    def _lose(self, sending: SimSending, outcome: SendOutcome) -> None:
        """Fail a send, and notify its sender. One of unknown outcome may be in the log, get there later, or never."""
        assert sending.effect is not None
        world, tp, record = self.world, sending.tp, sending.record
        world.history.fail(record.step)
        if outcome is not SendOutcome.UNDONE:
            world.failed[record.ledger, record.process, tp, record.seq] = record.epoch
        fate = world.rng.choice(("there", "later", "never")) if outcome is SendOutcome.UNKNOWN else ""
        if fate == "there":
            world.append_late(tp, record)
        elif fate == "later":
            world.in_queue.append((tp, record))
        self._settled(sending)
        self.do(self.machine.settled(sending.effect, tp, record.seq, outcome, reason="by chance"))

    def fence(self) -> None:
        """Fence a process: its inputs are assigned to another, which has aborted its open transactions."""
        for sending in self._aborted():
            self._lose(sending, SendOutcome.UNDONE)

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
        effect, seq = sending.effect, sending.record.seq if sending.unstamped is None else None
        if effect is None:
            self.feed(MarkerSettled(epoch=sending.record.epoch, tp=tp, offset=sending.offset))
            return
        if seq is None or not self.world.plan.exactly_once or sending.execution is None:
            self._settled(sending)
        self.do(self.machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=sending.offset))

    def send_markers(self, action: SendMarkers) -> None:
        """Put them into the outbox of each partition."""
        for tp in action.tps:
            sending = SimSending(tp, SimStored(marker=True, previous=action.previous))
            self._left(sending, action.epoch, self.machine.colours.stamp(tp))

    # -- the hooks of the loop ------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Write it later."""
        self.posts.append(record)

    def start_timer(self, action: StartTimer) -> None:
        """Let it expire later, or never."""
        self.timers.add(action.epoch)

    def append_hello(self, was: int = NOBODY) -> None:
        """Join, maybe again."""
        app, world = self.app, self.world
        inputs = [
            InputTopic(topic=t, partitions=world.partitions[t], topic_id=world.topic_id(t))
            for t in app.topics
        ]
        partitions = max((topic.partitions for topic in inputs), default=0)
        tables = [Table(name="t", changelog=app.changelog, partitions=partitions)]
        if world.plan.global_table:
            tables.append(Table(name="g", changelog="global", partitions=1))
        hello = Hello(
            n=world.number(), app=app.name, pid=self.number, inputs=(*inputs,), tables=(*tables,), was=was
        )
        self.feed(Joined(hello=hello))
        self.posts.append(hello)

    @property
    def joined(self) -> bool:
        return self.machine.process is not None and self.machine.inputs.ready

    @property
    def knows_of_a_loss(self) -> bool:
        """Return whether it has read records that the ledger has lost, and has not reported the loss yet."""
        return self.lost is not None or any(isinstance(record, TailLost) for record in self.posts)

    # -- the ledger --------------------------------------------------------------------------------------------

    def _post(self, _: object) -> None:
        record = self.posts.popleft()
        if isinstance(record, Report) and self.world.chance("lose-report"):
            return
        offset = self.world.append_to_ledger(record)
        self.seen = max(self.seen, offset + 1)

    def _ledger(self, _: object) -> None:
        self.read += 1
        self.seen = max(self.seen, self.read)
        offset = self.read - 1
        self.feed(LedgerRead(offset=offset, record=self.world.broker.ledger[offset]))
        if self.bare and self.machine.process is not None:
            self.bare = self.greeting = False
            self.world.count("late_hellos")
            self.feed(RanWithout(since=self.launched_at))
        self.made_up_for()

    def _notice(self, _: object) -> None:
        """Find that the ledger is not the one that this process has read."""
        assert self.lost is not None
        self.world.count("losses_noticed")
        said = TailLost(n=self.world.number(), since=self.lost)
        self.lost, self.deaf = None, True
        self.stand_down()
        self.posts.appendleft(said)

    def _late(self, _: object) -> None:
        self.late, self.greeting = False, True
        self.append_hello()

    def stand_down(self) -> None:
        """Stand down after a fault of ours: the worker runs on without taking part."""
        self.posts.clear()
        self.do(self.machine.stand_down())
        self.bare = True

    def made_up_for(self) -> None:
        """Ask the machine again for everything, once it was fed what it had to do without."""
        if self.missed is not None and self.read >= self.missed:
            self.missed = None
        if self.joined:
            self.impatient = False
        if self.machine.absent and self.missed is None and not self.impatient:
            self.feed(Absence(over=True))

    def go_on(self, *, missed: int | None = None) -> None:
        """Stop waiting (R15). `missed`: see there; None: for the announcement of the inputs."""
        if missed is None:
            self.impatient = True
        else:
            self.missed = max(missed, self.missed or 0)
        self.feed(Absence())

    def is_ours(self, record: SimStored) -> bool:
        """Return whether a record has a header of this ledger. Epochs of another one mean nothing."""
        return record.process >= 0 and record.ledger == self.world.broker.ledger_id

    def meets(self, record: SimStored, how: str) -> bool:
        """Meet a record before a consumer, a table or a reply (`how`) takes it in (R2); return whether it is held back
        (R16). A record without a header, or with that of another ledger, is external."""
        if not self.is_ours(record):
            return False
        if how != "fetch":
            self.machine.takes_from(record.process)
        event: MarkerMet | RecordMet = MarkerMet(epoch=record.epoch)
        if not record.marker:
            event = RecordMet(epoch=record.epoch, may_wait=how == "fetch")
        asked = self.feed(event)
        if asked is None or isinstance(asked, Hold):
            return asked is not None
        if self.machine.absent or self.hung or self.world.chance("silent-ledger"):
            self.go_on(missed=min(asked.offset + 1, len(self.world.broker.ledger)))
            self.made_up_for()
            return False
        self.read_ledger_to(asked.offset)
        return isinstance(self.feed(event), Hold)

    def read_ledger_to(self, offset: int) -> None:
        while self.read <= min(offset, len(self.world.broker.ledger) - 1):
            self._ledger(None)

    def expire(self, epoch: int) -> None:
        """End the time to live of a snapshot."""
        self.timers.discard(epoch)
        self.feed(TimerExpired(epoch=epoch))
