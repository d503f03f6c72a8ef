"""A process of the simulator: a driver of `WorkerProtocol`, and the Faust worker around it.

Everything that takes time is a step of its own, so that anything may happen in between: a record is fetched, later
started, its event runs step by step; a send enters, is stamped, appended, acknowledged; a ledger record is written,
and read. `choices()` states what could happen next, `perform()` makes it happen. Like any driver it decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from snapkafka.protocol.actions import AskEnds, AskStopped, HoldRecord, StartTimer, TurnedRed
from snapkafka.protocol.events import (
    CameBack,
    ChannelEnded,
    EndsSeen,
    InputsAssigned,
    InputsReleased,
    Joined,
    LedgerCutShort,
    LedgerRead,
    MarkerMet,
    RanWithout,
    RecordMet,
    ReportAppended,
    TimerExpired,
    WentAbsent,
)
from snapkafka.protocol.records import (
    NOBODY,
    Closed,
    CutReport,
    HeldInput,
    Hello,
    InputTopic,
    LedgerRecord,
    LogEnd,
    Table,
    TailLost,
    TopicPartition,
)

from .broker_log import ABORTED, COMMITTED, OPEN, SimStored
from .executions import Runner
from .world_plan import App

if TYPE_CHECKING:
    from .surroundings import Surroundings

Choice = tuple[str, object]


def reports_a_cut(record: LedgerRecord) -> bool:
    """Return whether a record is a report, or has one in it."""
    return isinstance(record, CutReport) or (isinstance(record, Closed) and bool(record.cut))


class Process(Runner):
    """A worker of an app, from start to end of one run of the program."""

    def __init__(
        self,
        world: Surroundings[Process],
        number: int,
        app: App,
        *,
        without: bool = False,
        late: bool = False,
    ) -> None:
        super().__init__(world, number, app)
        self.launched_at = len(world.broker.ledger) if late else 0  # nothing of it ran before
        self.read = self.seen = 0  # of the ledger; `seen`: read, or written and acknowledged
        self.lost: tuple[int, int] | None = None  # what of that the ledger has lost: from, to
        self.replies_at = 0
        self.posts: deque[LedgerRecord] = deque()
        self.reported: deque[ReportAppended] = deque()  # acknowledged, and it does not know yet
        self.ends: deque[AskEnds] = deque()
        self.stopped: deque[AskStopped] = deque()
        self.timers: set[int] = set()
        self.align_timers: set[int] = set()
        self.later_timers: set[int] = set()  # of epochs with a second one
        self.missed: int | None = (
            None  # up to where the ledger should have been read, and did not answer (R15)
        )
        self.to_announce: InputsAssigned | None = None  # the broker has not said yet where these start
        self.impatient = False  # its inputs run, though nobody has been told of them
        self.paused = False
        self.hung = False  # the ledger answers nothing, and nothing arrives there
        self.connected = True
        self.reply_tp = TopicPartition(app.reply_topic, number)
        self.ticks = 0
        self.late = late  # the ledger does not take its Hello yet, and it has not waited for that
        self.greeting = False  # it said so late, and has not read it yet: it has no id to say `Bye` with
        self.bare = without or late
        if late:
            self.go_on()
        if not self.bare:
            self.append_hello()

    # -- the hooks of the loop ------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Write it later."""
        self.posts.append(record)

    def ask_ends(self, action: AskEnds) -> None:
        """Answer later."""
        self.ends.append(action)

    def ask_stopped(self, action: AskStopped) -> None:
        """Answer later."""
        self.stopped.append(action)

    def start_timer(self, action: StartTimer) -> None:
        """Let it expire later, or never."""
        if action.align:
            self.align_timers.add(action.epoch)
        else:
            (self.later_timers if action.epoch in self.timers else self.timers).add(action.epoch)

    def hold_inputs(self) -> None:
        """Start nothing more."""
        self.world.count("inputs_held")
        self.consumer.held_all = True

    def let_go(self, epoch: int) -> None:
        """Let everything go on."""
        held = self.consumer.fetch.keys() if self.consumer.held_all else self.consumer.held
        inputs = tuple(HeldInput(topic=tp.topic, partition=tp.partition, held_us=1) for tp in sorted(held))
        self.consumer.held_all = False
        self.consumer.held.clear()
        self.feed(InputsReleased(epoch=epoch, inputs=inputs))

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Count by what the process has heard of the snapshot."""
        self.world.count(f"heard by {action.heard}")

    def changed(self) -> None:
        """Let what had to wait leave."""
        if self.waiting:
            self._release()

    def append_hello(self, was: int = NOBODY) -> None:
        """Join, maybe again."""
        app, world = self.app, self.world
        hello = Hello(
            n=world.number(),
            app=app.name,
            pid=self.number,
            inputs=tuple(
                InputTopic(topic=t, partitions=world.partitions[t], topic_id=world.topic_id(t))
                for t in app.topics
            ),
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

    # -- what could happen next --------------------------------------------------------------------------------

    @property
    def joined(self) -> bool:
        return self.machine.process is not None and self.machine.inputs.ready

    @property
    def knows_of_a_loss(self) -> bool:
        """Has it seen records that the ledger has lost, and not reported that yet?"""
        return self.lost is not None or any(isinstance(record, TailLost) for record in self.posts)

    def choices(self) -> Iterator[Choice]:
        """Yield every step that is possible now."""
        world = self.world
        if self.posts and not self.hung:
            yield "post", None
        if self.read < len(world.broker.ledger) and not self.hung:
            yield "ledger", None
        if self.lost is not None and not self.hung:
            yield "notice", None
        if self.reported and not self.hung:
            yield "reported", None
        if self.ends:
            yield "ends", None
        if self.stopped:
            yield "stopped", None
        if self.to_announce is not None:
            yield "announce", None
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
        if self.align_timers:
            yield "unalign", None
        for running in self.running:
            if (
                not running.awaits or running.answer is not None or world.healthy
            ):  # who asks gives up some day
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
        if self.app.timer and self.ticks < 3:
            yield "tick", None
        if self.progress:
            yield "commit", None

    def perform(self, kind: str, what: object) -> None:
        """Make a step happen."""
        getattr(self, "_" + kind.replace("-", "_"))(what)

    # -- the ledger --------------------------------------------------------------------------------------------

    def _post(self, _: object) -> None:
        record = self.posts.popleft()
        if reports_a_cut(record) and self.world.chance("lose-report"):
            self.world.count("lost_reports")
            return
        if reports_a_cut(record) and isinstance(record, Closed):
            self.world.count("combined")
        offset = self.world.append_to_ledger(record, refused=self.signs_otherwise)
        if isinstance(record, CutReport) and self.world.plan.acknowledged:
            if again := self.world.rng.random() < self.world.plan.appended_again:
                offset = self.world.append_to_ledger(record, refused=self.signs_otherwise)
            self.reported.append(ReportAppended(n=record.n, offset=offset, repeated=again))
        self.seen = max(self.seen, offset + 1)

    def _reported(self, _: object) -> None:
        self.world.count("acknowledged_reports")
        self.feed(self.reported.popleft())

    @property
    def signs_otherwise(self) -> bool:
        plan = self.world.plan
        return self.app.name in plan.other_key or self.app.name in plan.own_key

    def _ledger(self, _: object) -> None:
        self.read += 1
        self.seen = max(self.seen, self.read)
        offset, broker = self.read - 1, self.world.broker
        record, other = broker.ledger[offset], offset in broker.refused
        refuses = (
            not other if self.app.name in self.world.plan.own_key else other and not self.signs_otherwise
        )
        self.feed(
            LedgerRead(
                offset=offset,
                record=None if refuses else record,
                refused=record if refuses else None,
            )
        )
        if self.machine.withdrawn and not self.bare:
            self.world.count("withdrawn")
            self.bare = True
        if self.bare and self.machine.process is not None:
            self.bare = self.greeting = False
            self.world.count("late_hellos")
            self.feed(RanWithout(since=self.launched_at))
        self.made_up_for()

    def _notice(self, _: object) -> None:
        """Find that the ledger is not the one that this process has read."""
        assert self.lost is not None
        since, upto = self.lost
        event = LedgerCutShort(since=since, upto=upto, n=self.world.number())
        self.world.count("losses_noticed")
        self.lost = self.missed = None
        self.read = self.seen = 0
        self.posts.clear()
        self.reported.clear()
        self.ends.clear()
        self.stopped.clear()
        self.timers.clear()
        self.align_timers.clear()
        self.later_timers.clear()
        self.feed(event)
        self.made_up_for()

    def _late(self, _: object) -> None:
        self.late, self.greeting = False, True
        self.append_hello()

    def stand_down(self) -> None:
        """Stand down after a fault of ours: the worker runs on without taking part."""
        self.world.count("stood_down")
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
            self.feed(CameBack())

    def go_on(self, *, missed: int | None = None) -> None:
        """Stop waiting (R15). `missed`: see there; None: for the announcement of the inputs."""
        if missed is None:
            self.impatient = True
        else:
            self.missed = max(missed, self.missed or 0)
        self.feed(WentAbsent())

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

    def _announce(self, _: object) -> None:
        self.world.announce(self)

    def _stopped(self, _: object) -> None:
        self.feed(self.world.stopped_app(self.stopped.popleft()))

    def expire(self, epoch: int) -> None:
        """End the time to live of a snapshot, or that for which a report is held back."""
        if epoch in self.later_timers:
            self.later_timers.discard(epoch)
        else:
            self.timers.discard(epoch)
        if epoch in self.machine.open.due:
            self.world.count("timers_of_held_reports")
        self.feed(TimerExpired(epoch=epoch))

    def _unalign(self, _: object) -> None:
        self.feed(TimerExpired(epoch=self.align_timers.pop(), align=True))

    # -- taking in ---------------------------------------------------------------------------------------------

    def meet(self, record: SimStored, *, may_wait: bool) -> bool:
        """Meet a record before it is taken in, whoever reads it (R2); return whether it is held back (R16). A record
        without a header, or with that of another ledger, is external."""
        if not self.is_ours(record):
            return False
        if record.marker:
            event: MarkerMet | RecordMet = MarkerMet(epoch=record.epoch)
        else:
            event = RecordMet(epoch=record.epoch, may_wait=may_wait)
        asked = self.feed(event)
        if asked is None or isinstance(asked, HoldRecord):
            return asked is not None
        if self.machine.absent or self.hung or self.world.chance("silent-ledger"):
            self.world.count("silent_ledgers")
            self.go_on(missed=min(asked.offset + 1, len(self.world.broker.ledger)))
            self.made_up_for()
            return False
        self.read_ledger_to(asked.offset)
        return isinstance(self.feed(event), HoldRecord)

    def _fetch(self, tp: object) -> None:
        assert isinstance(tp, TopicPartition)
        offset = self.consumer.fetch[tp]
        record = self.world.broker.log(tp)[offset]
        self.progress = True
        if record.state != ABORTED and self.world.meets(self, record, "fetch"):
            self.consumer.held.add(tp)
            self.world.count("records_held")
            return
        self.consumer.fetch[tp] = offset + 1
        if record.state == ABORTED:
            return
        if record.marker:
            if record.ledger == self.world.broker.ledger_id and not record.stripped:
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
        self.world.commit(self)

    def _commit_transaction(self, _: object) -> None:
        for sending in self.transaction:
            sending.record = self.world.broker.end(sending.tp, sending.offset, COMMITTED)
            self._settled(sending)
        self.transaction.clear()
        self.world.commit(self)
