"""The events of a worker: its agents run their programs, one step at a time, and several at once."""

from __future__ import annotations

from collections.abc import Callable

from snapkafka.protocol.colours import Cause, Torn
from snapkafka.protocol.records import TopicPartition
from snapkafka.sim.judge import WITHOUT

from .broker_log import ABORTED, OPEN
from .cluster import Cluster
from .driver import Driver, SimSending
from .history import Cell, Memory, SimConsumer, SimRunning
from .world_plan import App


class Runner(Driver):
    """The part of a process that runs events."""

    def __init__(self, world: Cluster, number: int, app: App) -> None:
        super().__init__(world, number, app)
        self.consumer = SimConsumer()
        self.memory: dict[int, Memory] = {}
        self.kept: dict[TopicPartition, int] = {}  # one past the last event whose transaction was committed
        self.shared: Memory = {}
        self.shared_at = 0  # so far the global table is read
        self.running: list[SimRunning] = []
        self.finished: list[SimRunning] = []
        self.progress = False  # since the last commit

    def _start(self, what: tuple[str, TopicPartition]) -> None:
        agent, tp = what
        queue = self.consumer.queues[what]
        if len(queue) > 1 and self.world.chance("disorder"):
            queue.rotate(-1)
        offset, record = queue.popleft()
        process = WITHOUT if self.bare else self.machine.process
        assert process is not None
        execution = self.world.history.execution(process, self.app.name, agent, tp, offset)
        cause = Cause(agent, tp, offset, execution.number)
        self.do(self.machine.event_started(cause))
        self.world.history.step(execution, "start", record.step)
        programs = self.world.agents[agent].programs
        self.running.append(
            SimRunning(
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

    def _step(self, running: SimRunning) -> None:
        if running.answer is not None:
            record, running.answer, running.awaits = running.answer, None, False
            epoch = record.epoch if self.is_ours(record) else None
            self.torn(lambda: self.machine.colours.tear(running.cause, epoch))
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
                cell = self._table(running, kind)[1].setdefault(key, Cell())
                self.world.history.look(running.execution, cell, f"read {key}")
            case ("write" | "gwrite" as kind, key):
                self.touch(running, kind, key, write=True)
                step = self.world.history.write(running.execution, self._table(running, kind)[1], key)
                own = TopicPartition(self.app.changelog, running.partition)
                tp = own if kind == "write" else self.world.shared_tp
                self.send(tp, step.number, running, key=key, buffered=True)
            case ("hold" | "ghold" | "see" | "gsee" as kind, key):
                self._hold(running, kind, key)
            case ("look" | "glook" | "change" | "gchange" as kind, key):
                self._look_again(running, kind, key)
            case ("iterate" | "giterate" as kind, *_):
                self._iterate(running, kind)
            case ("next" | "gnext", *_) if running.iterator is not None:
                self._next(running, running.iterator)
            case ("send" | "buffer" | "ask" as kind, topic) if running.hops > 0:
                step = self.world.history.step(running.execution, f"{kind} {topic}")
                tp = TopicPartition(topic, self.world.pick(self.world.partitions[topic], running.partition))
                reply_to = (self.number, running.execution.number) if kind == "ask" else None
                self.send(tp, step.number, running, buffered=kind == "buffer", reply_to=reply_to)
                running.awaits = kind == "ask" and not self.world.plan.exactly_once
            case _:
                self.world.history.step(running.execution, "pause")

    def _table(self, running: SimRunning, kind: str) -> tuple[str, Memory]:
        """Return the name and the content of the table of a step."""
        return ("g", self.shared) if kind.startswith("g") else (f"t{running.partition}", running.memory)

    def touch(self, running: SimRunning, kind: str, key: str, *, write: bool) -> None:
        if self.machine.colours.tearing:
            name, _ = self._table(running, kind)
            self.torn(lambda: self.machine.colours.touch(running.cause, name, key, write=write))

    def expire_window(self, table: str, memory: Memory) -> None:
        """Expire a window, outside any event and without a record."""
        assert self.machine.process is not None
        key = self.world.rng.choice(sorted(memory))
        self.note_expiry(table, key)
        self.world.history.expire(memory, key, self.machine.process, self.machine.colours.epoch)

    def note_expiry(self, name: str, key: str) -> None:
        """Feed the machine, as the driver does by its hook in Faust."""
        if self.machine.colours.tearing:
            self.torn(lambda: self.machine.colours.touch(None, name, key, write=True))

    # -- what an event holds of a table: the machine is fed the first look-up only ------------------------------

    def _hold(self, running: SimRunning, kind: str, key: str) -> None:
        """Look up a value that changes in place."""
        (name, table), cause = self._table(running, kind), running.cause
        unrecorded = kind.endswith("hold")
        self.torn(lambda: self.machine.colours.hold(cause, name, key, unrecorded=unrecorded))
        cell = table.setdefault(key, Cell())
        running.held[f"{name} {key}"] = cell, self.machine.colours.epoch
        self.world.history.look(running.execution, cell, f"{kind} {key}")

    def _look_again(self, running: SimRunning, kind: str, key: str) -> None:
        """Read a value through what is held, or change it there."""
        name, _ = self._table(running, kind)
        cell, epoch = running.held[f"{name} {key}"]
        change = kind.endswith("change")
        self.world.count("changes_in_place" if change else "later_looks")
        if epoch != self.machine.colours.epoch:
            self.world.count("later_looks_over_a_cut")
        history = self.world.history
        (history.change if change else history.look)(running.execution, cell, f"{kind} {key}")

    def _iterate(self, running: SimRunning, kind: str) -> None:
        (name, table), cause = self._table(running, kind), running.cause
        self.torn(lambda: self.machine.colours.iterate(cause, name))
        running.iterator = sorted(table.items(), reverse=True)
        self.world.history.step(running.execution, kind)

    def _next(self, running: SimRunning, iterator: list[tuple[str, Cell]]) -> None:
        """Advance an iterator."""
        if iterator:
            key, cell = iterator.pop()
            self.world.count("iterated")
            self.world.history.look(running.execution, cell, f"next {key}")
        else:
            running.iterator = None
            self.world.history.step(running.execution, "next")

    def _global(self, _: object) -> None:
        record = self.world.broker.log(self.world.shared_tp)[self.shared_at]
        if record.state == OPEN:
            return
        self.shared_at += 1
        if record.state == ABORTED or record.step < 0:
            return
        self.meets(record, "global")
        if record.process != self.machine.process or not self.is_ours(record):
            if self.is_ours(record):
                self.torn(lambda: self.machine.colours.received("g", record.key, record.epoch))
            self.world.history.recovered(self.shared, record.key, record.step)

    def torn(self, ask: Callable[[], list[Torn]]) -> None:
        """Note where in the history events were torn, if any were: only the checker uses this."""
        colours = self.machine.colours
        before = [colours.running.get(running.cause, 0) for running in self.running]
        self.do(self.machine.torn(ask()))
        for running, was in zip(self.running, before, strict=True):
            now = colours.running.get(running.cause, 0)
            if now > was:
                self.world.count("torn")
                running.execution.torn_at[was, now] = len(running.execution.steps)

    def _finish(self, running: SimRunning) -> None:
        if running.reply_to is not None:
            asker, _ = running.reply_to
            step = self.world.history.step(running.execution, "answer")
            tp = TopicPartition(self.world.processes_ever[asker].app.reply_topic, asker)
            self.send(tp, step.number, running, reply_to=running.reply_to)
        self.running.remove(running)
        self.finished.append(running)
        self.progress = True
        self.do(self.machine.event_ended(running.cause))

    def fence(self) -> None:
        """Likewise; nothing of what still runs will count."""
        self.fenced |= {running.execution.number for running in (*self.running, *self.finished)}
        super().fence()

    def _aborted(self) -> list[SimSending]:
        self.memory = {}  # what was aborted is in it
        return super()._aborted()

    def _settled(self, sending: SimSending) -> None:
        for running in (*self.running, *self.finished):
            if running.execution is sending.execution:
                running.unacked -= 1
        self.progress = True
        settled = [running for running in self.finished if not running.unacked]
        for running in settled:
            self._processed(running)

    def _processed(self, running: SimRunning) -> None:
        self.finished.remove(running)
        if running.execution.undone is None:
            end = running.cause.offset + 1
            self.kept[running.cause.tp] = max(end, self.kept.get(running.cause.tp, 0))
        done = running.consumer.done.get(running.cause.tp, {})
        if running.cause.offset in done:
            done[running.cause.offset] -= 1

    def committable(self, tp: TopicPartition) -> int:
        """Return the first offset that is not done with all its effects acknowledged."""
        for running in [r for r in self.finished if not r.unacked]:
            self._processed(running)
        open_offsets = [offset for offset, left in self.consumer.done.get(tp, {}).items() if left > 0]
        return min(open_offsets, default=self.consumer.fetch.get(tp, 0))
