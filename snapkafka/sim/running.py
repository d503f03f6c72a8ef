"""The events of a worker: its agents run their programs, one step at a time, and several at once."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from snapkafka.checks.causal import WITHOUT, Execution
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.records import TopicPartition

from .history import Memory
from .log import Stored
from .plan import App, Op
from .sending import Sender, Sending

if TYPE_CHECKING:
    from .world import World

__all__ = ["Consumer", "Runner", "Running"]


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


class Runner(Sender):
    """A process as far as it runs events."""

    def __init__(self, world: World, number: int, app: App) -> None:
        super().__init__(world, number, app)
        self.consumer = Consumer()
        self.memory: dict[int, Memory] = {}
        self.shared: Memory = {}
        self.running: list[Running] = []
        self.finished: list[Running] = []
        self.progress = False  # since the last commit

    def _start(self, what: object) -> None:
        assert isinstance(what, tuple)
        agent: str = what[0]
        tp: TopicPartition = what[1]
        queue = self.consumer.queues[agent, tp]
        if len(queue) > 1 and self.world.chance("disorder"):
            self.world.count("out_of_order")
            queue.rotate(-1)
        offset, record = queue.popleft()
        process = WITHOUT if self.bare else self.machine.process
        assert process is not None
        execution = self.world.history.execution(process, self.app.name, agent, tp, offset)
        cause = Cause(agent, tp, offset, execution.number)
        self.act(self.machine.event_started(cause))
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
                tp = TopicPartition(topic, self.world.pick(self.world.partitions[topic], running.partition))
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

    def fence(self) -> None:
        self.fenced |= {running.execution.number for running in (*self.running, *self.finished)}
        self.memory = {}  # what was aborted is in it
        super().fence()

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

    def committable(self, tp: TopicPartition) -> int:
        """The first offset that is not done with all its effects acknowledged."""
        for running in [r for r in self.finished if not r.unacked]:
            self._processed(running)
        open_offsets = [offset for offset, left in self.consumer.done.get(tp, {}).items() if left > 0]
        return min(open_offsets, default=self.consumer.fetch.get(tp, 0))
