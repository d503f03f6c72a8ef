"""One process of the simulator: a driver of `WorkerProtocol`, and the Faust worker around it.

Everything that takes time is a step of its own, so that anything may happen in between: a record is fetched, later
started, its event runs step by step; a send enters, is stamped, appended, acknowledged; a ledger record is written,
and read. `choices()` says what could happen next, `do()` makes it happen. Like any driver it decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from snapkafka.checks.causal import Execution
from snapkafka.protocol.actions import (
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
from snapkafka.protocol.colours import Cause, Effect
from snapkafka.protocol.events import (
    ChannelEnded,
    CutTimed,
    EndsSeen,
    Event,
    Joined,
    LedgerRead,
    MarkerMet,
    MarkerSent,
    RecordMet,
    TimerExpired,
)
from snapkafka.protocol.records import (
    NOBODY,
    CutReport,
    Hello,
    InputTopic,
    LedgerRecord,
    LogEnd,
    Table,
    TopicPartition,
)
from snapkafka.protocol.worker import WorkerProtocol

from .history import Memory
from .log import ABORTED, COMMITTED, OPEN, Stored
from .plan import App, Op

if TYPE_CHECKING:
    from .world import World

__all__ = ["Process", "Sending"]

Choice = tuple[str, object]


@dataclass(slots=True, eq=False)
class Sending:
    """A record on its way: in the buffer, in the outbox of its partition, in the log but not acknowledged."""

    tp: TopicPartition
    record: Stored
    effect: Effect | None = None  # None: a marker
    epoch: int = 0
    execution: Execution | None = None
    offset: int = -1
    copies: int = 1


@dataclass(slots=True)
class Consumer:
    """What a process reads: where it fetches next, what waits to be started, what is done."""

    fetch: dict[TopicPartition, int] = field(default_factory=dict)
    queues: dict[tuple[str, TopicPartition], deque[tuple[int, Stored]]] = field(default_factory=dict)
    done: dict[TopicPartition, dict[int, int]] = field(
        default_factory=dict
    )  # offset -> agents still to be done
    generation: int = 0


@dataclass(slots=True, eq=False)
class Running:
    """An event that runs: its program, how far it is, the memory that it has, the hops that its record has left."""

    cause: Cause
    execution: Execution
    program: tuple[Op, ...]
    memory: Memory
    hops: int
    partition: int
    reply_to: tuple[int, int] | None
    consumer: Consumer
    at: int = 0
    awaits: bool = False
    unacked: int = 0
    answer: tuple[Stored, int] | None = None


class Process:
    """A worker of an app, from start to end of one life of the program."""

    def __init__(self, world: World, number: int, app: App) -> None:
        self.world, self.number, self.app = world, number, app
        self.machine = WorkerProtocol(hear=world.plan.hear, classic=world.plan.classic)
        self.read = 0
        self.consumer = Consumer()
        self.memory: dict[int, Memory] = {}
        self.shared: Memory = {}
        self.shared_at = 0
        self.replies_at = 0
        self.running: list[Running] = []
        self.finished: list[Running] = []
        self.buffer: deque[Sending] = deque()
        self.waiting: deque[Sending] = deque()  # classic mode: red sends behind the markers
        self.outbox: dict[TopicPartition, deque[Sending]] = {}
        self.unacked: dict[TopicPartition, deque[Sending]] = {}
        self.posts: deque[LedgerRecord] = deque()
        self.ends: deque[AskEnds] = deque()
        self.stopped: deque[AskStopped] = deque()
        self.timers: set[int] = set()
        self.paused = False
        self.connected = True
        self.transaction: list[Sending] = []
        self.reply_tp = TopicPartition(app.reply_topic, number)
        self.ticks = 0
        self.progress = False  # since the last commit
        self.say_hello()

    # -- the driver: feed, take actions, do them ---------------------------------------------------------------

    def feed(self, event: Event) -> list[Action]:
        actions = self.machine.handle(event)
        self.act(actions)
        return actions

    def act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case AppendToLedger(record=record):
                    self.posts.append(record)
                case SendMarkers():
                    self._send_markers(action)
                case AskEnds():
                    self.ends.append(action)
                case AskStopped():
                    self.stopped.append(action)
                case TurnedRed(epoch=epoch, heard=heard):
                    self.world.count(f"heard by {heard}")
                    self.feed(CutTimed(epoch=epoch, us=1))
                case StartTimer(epoch=epoch):
                    self.timers.add(epoch)
                case SayHello(was=was):
                    self.say_hello(was)
                case ReadLedgerTo():
                    pass
        if self.waiting:
            self._release()

    def say_hello(self, was: int = NOBODY) -> None:
        app, world = self.app, self.world
        hello = Hello(
            n=world.number(),
            app=app.name,
            pid=self.number,
            inputs=tuple(InputTopic(topic=t, partitions=world.partitions[t]) for t in app.topics),
            tables=(
                Table(
                    name="t",
                    changelog=app.changelog,
                    partitions=max((world.partitions[t] for t in app.topics), default=0),
                ),
                *((Table(name="g", changelog="global", partitions=1),) if world.plan.global_table else ()),
            ),
            was=was,
        )
        self.feed(Joined(hello=hello))
        self.posts.append(hello)

    def _send_markers(self, action: SendMarkers) -> None:
        for tp in action.tps:
            seq = self.machine.marker_stamped(tp)
            record = self._stamped(Stored(marker=True, previous=action.previous), action.epoch, seq)
            self.outbox.setdefault(tp, deque()).append(Sending(tp, record, epoch=action.epoch))

    def _stamped(self, record: Stored, epoch: int, seq: int) -> Stored:
        record.process = -1 if self.machine.process is None else self.machine.process
        record.epoch, record.seq, record.ledger = epoch, seq, self.world.broker.ledger_id
        return record

    # -- what could happen next --------------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        return self.machine.process is not None and self.machine.inputs.ready

    def choices(self) -> Iterator[Choice]:
        """Every step that is possible now."""
        world = self.world
        if self.posts:
            yield "post", None
        if self.read < len(world.broker.ledger):
            yield "ledger", None
        if self.ends:
            yield "ends", None
        if self.stopped:
            yield "stopped", None
        for tp, queue in self.outbox.items():
            if queue:
                yield "append", tp
        for tp, queue in self.unacked.items():
            if queue and queue[0].record.state != OPEN:
                yield "ack", tp
        if self.transaction and not any(
            r.execution is s.execution for r in self.running for s in self.transaction
        ):
            yield "commit-transaction", None
        if self.machine.process is None:
            return
        if self.buffer:
            yield "stamp", None
        for running in self.running:
            if (
                not running.awaits or running.answer is not None or world.healthy
            ):  # who asks gives up some day
                yield "step", running
        if not self.joined:
            return
        consumer = self.consumer
        for tp, offset in consumer.fetch.items():
            if world.broker.readable(tp, offset) is not None and not self._full(tp):
                yield "fetch", tp
        for (agent, tp), waiting in consumer.queues.items():
            if waiting and self._runs(agent) < world.agents[agent].concurrency:
                yield "start", (agent, tp)
        if self.shared_at < len(world.broker.log(world.shared_tp)) and world.plan.global_table:
            yield "global", None
        if self.replies_at < len(world.broker.log(self.reply_tp)):
            yield "reply", None
        if self.app.timer and self.ticks < 3:
            yield "tick", None
        if self.progress:
            yield "commit", None

    def _full(self, tp: TopicPartition) -> bool:
        return any(len(queue) > 1 for (_, place), queue in self.consumer.queues.items() if place == tp)

    def _runs(self, agent: str) -> int:
        return sum(1 for running in self.running if running.cause.agent == agent)

    def do(self, kind: str, what: object) -> None:
        """Make it happen."""
        getattr(self, "_" + kind.replace("-", "_"))(what)

    # -- the ledger --------------------------------------------------------------------------------------------

    def _post(self, _: object) -> None:
        record = self.posts.popleft()
        if isinstance(record, CutReport) and self.world.chance("lose-report"):
            self.world.count("lost_reports")
            return
        self.world.append_to_ledger(record)

    def _ledger(self, _: object) -> None:
        self.read += 1
        self.feed(LedgerRead(offset=self.read - 1, record=self.world.broker.ledger[self.read - 1]))

    def read_ledger_to(self, offset: int) -> None:
        while self.read <= min(offset, len(self.world.broker.ledger) - 1):
            self._ledger(None)

    def _ends(self, _: object) -> None:
        ask = self.ends.popleft()
        ends = (
            LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.world.broker.log(tp)))
            for tp in ask.tps
        )
        self.feed(EndsSeen(report=ask.report, ends=tuple(ends)))

    def _stopped(self, _: object) -> None:
        self.feed(self.world.stopped_app(self.stopped.popleft()))

    def expire(self, epoch: int) -> None:
        """The time to live of a snapshot is over."""
        self.timers.discard(epoch)
        self.feed(TimerExpired(epoch=epoch))

    # -- taking in ---------------------------------------------------------------------------------------------

    def meet(self, record: Stored) -> None:
        """R2: whoever reads it, before it is taken in. What bears the header of another ledger is external."""
        if record.process < 0 or record.ledger != self.world.broker.ledger_id:
            return
        event = MarkerMet(epoch=record.epoch) if record.marker else RecordMet(epoch=record.epoch)
        for action in self.feed(event):
            if isinstance(action, ReadLedgerTo):
                self.read_ledger_to(action.offset)
                self.feed(event)

    def _fetch(self, tp: object) -> None:
        assert isinstance(tp, TopicPartition)
        offset = self.consumer.fetch[tp]
        record = self.world.broker.log(tp)[offset]
        self.consumer.fetch[tp] = offset + 1
        self.progress = True
        if record.state == ABORTED:
            return
        self.world.meets(self, record, "fetch")
        if record.marker:
            if record.ledger == self.world.broker.ledger_id:
                self.feed(
                    ChannelEnded(
                        tp=tp,
                        offset=offset,
                        sender=record.process,
                        epoch=record.epoch,
                        previous=record.previous,
                    )
                )
            return
        agents = [agent.name for agent in self.app.agents if agent.topic == tp.topic]
        self.consumer.done.setdefault(tp, {})[offset] = len(agents)
        for agent in agents:
            self.consumer.queues.setdefault((agent, tp), deque()).append((offset, record))

    def _start(self, what: object) -> None:
        assert isinstance(what, tuple)
        agent: str = what[0]
        tp: TopicPartition = what[1]
        offset, record = self.consumer.queues[agent, tp].popleft()
        process = self.machine.process
        assert process is not None
        execution = self.world.history.execution(process, self.app.name, agent, tp, offset)
        cause = Cause(agent, tp, offset, execution.number)
        self.machine.event_started(cause)
        self.world.history.step(execution, "start", record.step)
        programs = self.world.agents[agent].programs
        self.running.append(
            Running(
                cause,
                execution,
                programs[offset % len(programs)],
                self.memory.setdefault(tp.partition, {}),
                record.hops,
                tp.partition,
                record.reply_to,
                self.consumer,
            )
        )

    def _global(self, _: object) -> None:
        record = self.world.broker.log(self.world.shared_tp)[self.shared_at]
        if record.state == OPEN:
            return
        self.shared_at += 1
        if record.state == ABORTED or record.step < 0:
            return
        self.world.meets(self, record, "global")
        if record.process != self.machine.process:
            self.machine.key_received("g", record.key, record.epoch)
            self.world.history.recovered(self.shared, record.key, record.value, record.step)

    def _reply(self, _: object) -> None:
        record = self.world.broker.log(self.reply_tp)[self.replies_at]
        if record.state == OPEN:
            return
        self.replies_at += 1
        if record.state == ABORTED or record.reply_to is None:
            return
        self.world.meets(self, record, "reply")
        for running in self.running:
            if running.execution.number == record.reply_to[1]:
                running.answer = (record, record.epoch)

    # -- running -----------------------------------------------------------------------------------------------

    def _step(self, what: object) -> None:
        running = what
        assert isinstance(running, Running)
        if running.answer is not None:
            record, epoch = running.answer
            running.answer, running.awaits = None, False
            self.torn(running, lambda: self.act(self.machine.reply_taken(running.cause, epoch)))
            self.world.history.step(running.execution, "reply", record.step)
            return
        running.awaits = False
        if running.at == len(running.program):
            self._finish(running)
            return
        op = running.program[running.at]
        running.at += 1
        match op:
            case ("read" | "gread" as kind, key):
                self.touch(running, kind, key, write=False)
                self.world.history.read(running.execution, self._table(running, kind), key)
            case ("write" | "gwrite" as kind, key):
                self.touch(running, kind, key, write=True)
                step = self.world.history.write(running.execution, self._table(running, kind), key)
                tp = (
                    self.world.shared_tp
                    if kind == "gwrite"
                    else TopicPartition(self.app.changelog, running.partition)
                )
                self.send(tp, step.number, running, key=key, buffered=True)
            case ("send" | "buffer" | "ask" as kind, topic) if running.hops > 0:
                step = self.world.history.step(running.execution, f"{kind} {topic}")
                tp = TopicPartition(topic, self.world.pick(self.world.partitions[topic], "partition"))
                reply_to = (self.number, running.execution.number) if kind == "ask" else None
                self.send(tp, step.number, running, buffered=kind == "buffer", reply_to=reply_to)
                running.awaits = kind == "ask" and not self.world.plan.exactly_once
            case _:
                self.world.history.step(running.execution, "pause")

    def _table(self, running: Running, kind: str) -> Memory:
        return self.shared if kind.startswith("g") else running.memory

    def touch(self, running: Running, kind: str, key: str, *, write: bool) -> None:
        if self.machine.colours.tearing:
            name = "g" if kind.startswith("g") else f"t{running.partition}"
            self.torn(
                running, lambda: self.act(self.machine.table_touched(running.cause, name, key, write=write))
            )

    def torn(self, running: Running, ask: object) -> None:
        """Note where in the history an event was torn, if it was: only the checker's knowledge of the instant."""
        before = self.machine.colours.running.get(running.cause, 0)
        ask()  # type: ignore[operator]
        after = self.machine.colours.running.get(running.cause, 0)
        if after > before:
            self.world.count("torn")
            running.execution.torn_at[before, after] = len(running.execution.steps)

    def _finish(self, running: Running) -> None:
        if running.reply_to is not None:
            asker, _ = running.reply_to
            step = self.world.history.step(running.execution, "answer")
            tp = TopicPartition(self.world.processes_ever[asker].app.reply_topic, asker)
            self.send(tp, step.number, running, reply_to=running.reply_to)
        self.running.remove(running)
        self.finished.append(running)
        self.progress = True
        self.act(self.machine.event_ended(running.cause))

    def _tick(self, _: object) -> None:
        """A timer sends outside any event; what it sends has the colour of the process."""
        self.ticks += 1
        partition = self.world.pick(self.world.partitions[self.app.timer], "partition")
        step = self.world.history.step(None, "timer")
        self.send(TopicPartition(self.app.timer, partition), step.number, None)

    # -- sending -----------------------------------------------------------------------------------------------

    def send(
        self,
        tp: TopicPartition,
        step: int,
        running: Running | None,
        *,
        key: str = "",
        buffered: bool = False,
        reply_to: tuple[int, int] | None = None,
    ) -> None:
        cause = running.cause if running is not None else None
        effect = self.machine.send_entered(cause)
        if effect.epoch < self.machine.colours.epoch:
            self.world.count("white_sends_while_red")
        record = Stored(
            cause=None if effect.cause is None else (effect.cause.tp, effect.cause.offset),
            key=key,
            value=step,
            hops=self.world.hops_left(running.hops - 1 if running is not None else 1),
            reply_to=reply_to,
            step=step,
        )
        sending = Sending(tp, record, effect, execution=running.execution if running is not None else None)
        if running is not None:
            running.unacked += 1
        if buffered:
            self.buffer.append(sending)
        else:
            self._leave(sending)

    def _stamp(self, _: object) -> None:
        self._leave(self.buffer.popleft())

    def _leave(self, sending: Sending) -> None:
        assert sending.effect is not None
        if sending.effect.sent is not self.machine.colours.sent:
            self.machine.send_withdrawn(sending.effect)  # it entered in an earlier life
            sending.effect = self.machine.send_entered_again(sending.effect)
        if self.machine.process is None or self.machine.must_wait(sending.effect):
            self.world.waits(self)
            self.waiting.append(sending)
            return
        effect, tp = sending.effect, sending.tp
        if (first := self.machine.first_marker(effect, tp)) is not None:
            self._send_markers(first)
        self._stamped(sending.record, effect.epoch, self.machine.send_stamped(effect, tp))
        self.outbox.setdefault(tp, deque()).append(sending)
        self.act(self.machine.send_appended(effect))

    def _release(self) -> None:
        waiting, self.waiting = self.waiting, deque()
        for sending in waiting:
            self._leave(sending)

    def _append(self, tp: object) -> None:
        assert isinstance(tp, TopicPartition)
        world, sending = self.world, self.outbox[tp].popleft()
        if sending.effect is not None and world.chance("fail-send"):
            world.count("failed_sends")
            world.history.steps[sending.record.step].failed = True
            self._settled(sending)
            self.act(self.machine.send_failed(sending.effect, tp, sending.record.seq, "the broker said no"))
            return
        transactional = world.plan.exactly_once and sending.execution is not None
        if transactional:
            sending.record.state = OPEN
            self.transaction.append(sending)
        sending.offset = world.broker.append(tp, sending.record)
        if sending.record.step >= 0:
            world.history.steps[sending.record.step].record = (tp, sending.offset)
        if sending.effect is not None and not transactional and world.chance("duplicate"):
            world.count("duplicates")
            sending.offset = world.broker.append(tp, sending.record)
        self.unacked.setdefault(tp, deque()).append(sending)

    def _commit_transaction(self, _: object) -> None:
        for sending in self.transaction:
            sending.record.state = COMMITTED
            self._settled(sending)
        self.transaction.clear()
        self.world.commit(self)

    def _ack(self, tp: object) -> None:
        assert isinstance(tp, TopicPartition)
        sending = self.unacked[tp].popleft()
        if sending.effect is None:
            self.feed(MarkerSent(epoch=sending.epoch, tp=tp, offset=sending.offset))
            return
        if not self.world.plan.exactly_once or sending.execution is None:
            self._settled(sending)
        self.act(self.machine.send_acked(sending.effect, tp, sending.record.seq, sending.offset))

    def _settled(self, sending: Sending) -> None:
        for running in (*self.running, *self.finished):
            if running.execution is sending.execution:
                running.unacked -= 1
        self.progress = True
        settled = [running for running in self.finished if not running.unacked]
        for running in settled:
            self._processed(running)

    def _processed(self, running: Running) -> None:
        self.finished.remove(running)
        done = running.consumer.done.get(running.cause.tp, {})
        if running.cause.offset in done:
            done[running.cause.offset] -= 1

    # -- positions ---------------------------------------------------------------------------------------------

    def committable(self, tp: TopicPartition) -> int:
        """The first offset that is not done with all its effects acknowledged."""
        for running in [r for r in self.finished if not r.unacked]:
            self._processed(running)
        open_offsets = [offset for offset, left in self.consumer.done.get(tp, {}).items() if left > 0]
        return min(open_offsets, default=self.consumer.fetch.get(tp, 0))

    def _commit(self, _: object) -> None:
        self.progress = False
        self.world.commit(self)
