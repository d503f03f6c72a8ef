"""A process of the simulator: a driver of `WorkerProtocol`, and the Faust worker around it.

Everything that takes time is a step of its own, so that anything may happen in between: a record is fetched, later
started, its event runs step by step; a send enters, is stamped, appended, acknowledged; a ledger record is written,
and read. `choices()` states what could happen next, `perform()` makes it happen. Like any driver it decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from snapkafka.protocol.actions import TurnedRed
from snapkafka.protocol.events import AssignedInput, ChannelEnded, InputsAssigned, InputsRevoked, StateGiven
from snapkafka.protocol.records import ChangelogEnd, LogEnd, Skipped, TopicPartition

from .broker_log import ABORTED, COMMITTED, OPEN, SimStored
from .cluster import Cluster
from .executions import Runner
from .history import Memory, SimConsumer
from .world_plan import App

Choice = tuple[str, object]


class Process(Runner):
    """A worker of an app, from start to end of one run of the program."""

    ticks_max = 3

    def __init__(
        self, world: Cluster, number: int, app: App, *, without: bool = False, late: bool = False
    ) -> None:
        super().__init__(world, number, app)
        self.replies_at = 0
        self.paused = False
        self.connected = True
        self.reply_tp = TopicPartition(app.reply_topic, number)
        self.ticks = 0
        self.bare, self.late = without or late, late
        if late:
            self.launched_at = len(world.broker.ledger)  # nothing of it ran before
            self.go_on()
        if not self.bare:
            self.append_hello()

    # -- the hooks of the loop ------------------------------------------------------------------------------------

    def hold_inputs(self) -> None:
        """Start nothing more."""
        self.world.count("inputs_held")
        self.consumer.held_all = True

    def let_go(self) -> None:
        """Let everything go on."""
        self.consumer.held_all = False
        self.consumer.held.clear()

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Count the source from which the process has learned of the snapshot."""
        self.world.count(f"heard by {action.heard}")

    # -- what could happen next --------------------------------------------------------------------------------

    def choices(self) -> Iterator[Choice]:
        """Yield every step that is possible now."""
        world = self.world
        if self.posts and not self.hung:
            yield "post", None
        if self.read < len(world.broker.ledger) and not (self.hung or self.deaf):
            yield "ledger", None
        if self.lost is not None and not self.hung:
            yield "notice", None
        for tp, queue in self.outbox.items():
            if queue:
                yield "append", tp
        for tp, queue in self.unacked.items():
            if queue and self.acknowledged(queue[0]):
                yield "ack", tp
        if self.transaction and not any(
            r.execution is s.execution for r in self.running for s in self.transaction
        ):
            yield "commit-transaction", None
        if self.late:
            yield "late", None
        if self.machine.process is None and not self.bare:
            return
        if self.buffer:
            yield "stamp", None
        if self.machine.aligner.awaits_state():
            yield "state", None
        for running in self.running:
            # who asks gives up some day
            if not running.awaits or running.answer is not None or world.healthy:
                yield "step", running
        if not (self.joined or self.impatient or self.bare):
            return
        broker, queues = world.broker, self.consumer.queues
        full = {tp for (_, tp), waiting in queues.items() if len(waiting) > 1}
        for tp, offset in self.consumer.fetch.items():
            if tp not in full and tp not in self.consumer.held and broker.is_readable(tp, offset):
                yield "fetch", tp
        runs = [running.cause.agent for running in self.running]
        for (agent, tp), waiting in queues.items():
            if waiting and not self.consumer.held_all and runs.count(agent) < world.agents[agent].concurrency:
                yield "start", (agent, tp)
        if world.plan.global_table and self.shared_at < len(broker.log(world.shared_tp)):
            yield "global", None
        if self.replies_at < len(broker.log(self.reply_tp)):
            yield "reply", None
        if self.app.timer and self.ticks < self.ticks_max:
            yield "tick", None
        if self.progress:
            yield "commit", None

    @property
    def busy(self) -> bool:
        """Whether anything of it runs or is on its way."""
        ways = (*self.outbox.values(), *self.unacked.values())
        return any((self.running, self.buffer, self.posts, self.transaction, *ways))

    @property
    def may_stop(self) -> bool:
        """Whether it can stop in order. Of what an agent has run without snapkafka, and another one has not, no header
        would show the replay."""
        if self.lost is not None or self.busy or self.greeting:
            return False
        return self.joined or (self.bare and not any(self.consumer.queues.values()))

    def perform(self, kind: str, what: object) -> None:
        """Make a step happen."""
        getattr(self, "_" + kind.replace("-", "_"))(what)

    def _state(self, _: object) -> None:
        world, epoch = self.world, self.machine.aligner.awaits_state()[0]
        world.count("states_given")
        world.given[world.broker.ledger_id, self.machine.author, epoch] = self.machine.positions.note()
        self.feed(StateGiven(epoch=epoch))

    # -- taking in ---------------------------------------------------------------------------------------------

    def _fetch(self, tp: TopicPartition) -> None:
        offset = self.consumer.fetch[tp]
        record = self.world.broker.log(tp)[offset]
        self.progress = True
        if record.state != ABORTED and self.meets(record, "fetch"):
            self.consumer.held.add(tp)
            self.world.count("records_held")
            return
        self.consumer.fetch[tp] = offset + 1
        if record.state == ABORTED:
            return
        if record.marker:
            if self.is_ours(record):
                sender, epoch, previous = record.process, record.epoch, record.previous
                self.feed(ChannelEnded(tp=tp, offset=offset, sender=sender, epoch=epoch, previous=previous))
            return
        agents = [agent.name for agent in self.app.agents if agent.topic == tp.topic]
        self.consumer.done.setdefault(tp, {})[offset] = len(agents)
        for agent in agents:
            self.consumer.queues.setdefault((agent, tp), deque()).append((offset, record))

    def skip(self, tp: TopicPartition) -> None:
        """Go on somewhat further in an input: the log was shortened, or the app sought."""
        at, end = self.consumer.fetch[tp], len(self.world.broker.log(tp))
        self.consumer.fetch[tp] = to = self.world.rng.randint(at + 1, end)
        self.machine.positions.moved(
            Skipped(topic=tp.topic, partition=tp.partition, start=at, end=to, reason="sought")
        )

    def _reply(self, _: object) -> None:
        record = self.world.broker.log(self.reply_tp)[self.replies_at]
        if record.state == OPEN:
            return
        self.replies_at += 1
        if record.state == ABORTED or record.reply_to is None:
            return
        self.meets(record, "reply")
        for running in self.running:
            if running.execution.number == record.reply_to[1]:
                running.answer = record

    # -- now and then -----------------------------------------------------------------------------------------

    def _tick(self, _: object) -> None:
        """Send by a timer, outside any event, in the colour of the process."""
        self.ticks += 1
        partition = self.world.pick(self.world.partitions[self.app.timer], 0)
        step = self.world.history.step(None, "timer")
        self.send(TopicPartition(self.app.timer, partition), step.number, None)

    def _commit(self, _: object) -> None:
        self.progress = False
        self.commit()

    def may_abort(self) -> bool:
        """Return whether it has an open transaction, in which nothing runs or leaves any more, with events that are
        in no other one."""
        busy = (self.running, self.buffer, *self.outbox.values())
        if not self.transaction or not self.joined or any(busy):
            return False
        history = self.world.history.steps
        places = (history[n].record for s in self.transaction if s.execution for n in s.execution.steps)
        return all(tp is None or self.world.broker.log(tp[0])[tp[1]].state == OPEN for tp in places)

    def _abort_transaction(self, _: object) -> None:
        """Abort the transaction, and go back to what is committed, as a plain loop does."""
        self.abort_transaction()
        inputs = list(self.consumer.fetch)
        kept = (LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in self.kept.items())
        self.consumer = SimConsumer()
        self.feed(InputsRevoked(undone_from=tuple(kept)))
        self.give(inputs)

    def _commit_transaction(self, _: object) -> None:
        for sending in self.transaction:
            sending.record = self.world.broker.end(sending.tp, sending.offset, COMMITTED)
            self._settled(sending)
        self.transaction.clear()
        self.commit()

    # -- its group ------------------------------------------------------------------------------------------------

    def revoke(self) -> None:
        self.consumer = SimConsumer()
        self.feed(InputsRevoked())

    def give(self, inputs: list[TopicPartition]) -> None:
        """Recover the tables (R2 holds for their records too), and start at the committed offsets."""
        world, app = self.world, self.app
        partitions = sorted({tp.partition for tp in inputs})
        self.memory = {p: self.memory.get(p) or self._recover(p) for p in partitions}
        self.consumer = SimConsumer(generation=world.generation[app.name])
        for tp in inputs:
            self.consumer.fetch[tp] = self._committed(tp)
        self.feed(
            InputsAssigned(
                generation=world.generation[app.name],
                inputs=tuple(
                    AssignedInput(
                        tp=tp,
                        agents=tuple(a.name for a in app.agents if a.topic == tp.topic),
                        position=self.consumer.fetch[tp],
                        replay_until=self._replay_until(tp),
                    )
                    for tp in inputs
                ),
                changelogs=tuple(
                    ChangelogEnd(table="t", topic=app.changelog, partition=p, end=len(self._changelog(p)))
                    for p in partitions
                ),
            )
        )

    def _committed(self, tp: TopicPartition) -> int:
        return self.world.broker.committed.get((self.app.name, tp), 0)

    def _changelog(self, partition: int) -> list[SimStored]:
        return self.world.broker.log(TopicPartition(self.app.changelog, partition))

    def _recover(self, partition: int) -> Memory:
        memory: Memory = {}
        for record in self._changelog(partition):
            if record.state == COMMITTED and record.step >= 0:
                self.meets(record, "recovery")
                self.world.history.recovered(memory, record.key, record.step)
        return memory

    def _replay_until(self, tp: TopicPartition) -> int:
        """Return the offset up to which the changelog shows effects of events of this input."""
        readable = (r for r in self._changelog(tp.partition) if r.state != ABORTED)
        causes = [r.cause[1] + 1 for r in readable if r.cause is not None and r.cause[0] == tp]
        return max(causes, default=0)

    def commit(self) -> None:
        world, app = self.world, self.app.name
        if self.consumer.generation == world.generation[app] and self.connected:
            for tp in self.consumer.fetch:
                world.broker.committed[app, tp] = max(self.committable(tp), self._committed(tp))
