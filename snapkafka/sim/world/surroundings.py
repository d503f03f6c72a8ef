"""The surroundings of the processes of the simulator: what a process, or the author of a trigger, may ask."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeVar, cast

from snapkafka.checks import stopped_app
from snapkafka.errors import TriggerRefusedError
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import Hello, LedgerRecord, LogEnd, Position, StoppedApp, TopicPartition
from snapkafka.wire.headers import HEADER

from .broker_log import SimBroker, SimStored
from .history import History
from .world_plan import WorldPlan

#: Once so many events have run, what they send leads to nothing more.
EXECUTIONS_MAX: Final = 36

T = TypeVar("T")
#: What the author of a trigger sees: how far the ledger is written, the ends of the inputs, and the stopped apps.
Seen = tuple[int, tuple[LogEnd, ...], tuple[StoppedApp, ...]]


class Surroundings:
    """The broker, the ledger, the other processes, chance, and the history that the judge reads."""

    def __init__(self, plan: WorldPlan, seed: int) -> None:
        self.plan = plan
        self.rng = random.Random(f"run {seed}")
        self.broker = SimBroker(strips=frozenset(plan.stripped))
        self.history = History()
        self.fold = LedgerState()
        self.agents = {agent.name: agent for app in plan.apps for agent in app.agents}
        self.apps = {app.name: app for app in plan.apps}
        self.partitions = dict.fromkeys(plan.externals, max((a.partitions for a in plan.apps), default=1))
        self.shared_tp = TopicPartition("global", 0)
        self.topic_ids = dict.fromkeys(plan.externals, 0)  # how often each was recreated
        self.readers = {t: [app.name for app in plan.apps if t in app.topics] for t in plan.externals}
        self.processes: list[Any] = []
        self.processes_ever: list[Any] = []
        self.generation: Counter[str] = Counter()
        self.unbalanced: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.healthy = False
        self._numbers = 10**6
        self.asked: Seen | None = None  # what the author of the next trigger has seen
        #: (ledger, epoch that failed) -> when it is asked for again.
        self.due: dict[tuple[int, int], float] = {}
        #: Sends that timed out for who sent them, and that the broker has still to serve.
        self.in_queue: list[tuple[TopicPartition, SimStored]] = []
        #: Seqs whose sender was notified of their failure, and that are in no log: (ledger, process, place, epoch).
        self.lost: set[tuple[int, int, TopicPartition, int, int]] = set()
        self.ran: dict[tuple[int, int], str] = {}  # (ledger, epoch) -> why an app that was stopped has run
        #: Where a process stood when it handed over its state, by ledger, process and epoch.
        self.given: dict[tuple[int, int, int], tuple[Position, ...]] = {}
        #: Seqs that ever failed for their sender, and were not undone: (ledger, process, place, seq).
        self.reported_failed: set[tuple[int, int, TopicPartition, int]] = set()

    # -- chance ------------------------------------------------------------------------------------------------

    def chance(self, fault: str) -> bool:
        share = 0.0 if self.healthy else self.plan.faults.get(fault, 0.0)
        return share > 0 and self.rng.random() < share

    def pick(self, n: int, near: int) -> int:
        """Choose the partition, among `n`, to which an event of the partition `near` sends something."""
        return self.rng.randrange(n)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def say(self, line: str) -> None:
        self.trace.append(line)

    def topic_id(self, topic: str) -> str:
        """Return Kafka's id of a topic that may be recreated."""
        return f"{topic} {self.topic_ids[topic]}" if topic in self.plan.recreated else ""

    def append_to_ledger(self, record: LedgerRecord) -> int:
        """Append a record."""
        offset = len(self.broker.ledger)
        self.broker.ledger.append(record)
        before = list(self.fold.open)
        self.fold.apply(offset, record)
        for epoch in before:
            if self.fold.snapshots[epoch].captured_at is not None:
                self._captured(epoch)
        self.count(type(record).__name__)
        if isinstance(record, Hello) and self.fold.highest_epoch:
            self.count("born_red")
        self.say(f"ledger {offset} {type(record).__name__}")
        return offset

    def append_late(self, tp: TopicPartition, record: SimStored) -> None:
        offset = self.broker.append(tp, record)
        self.history.steps[record.step].record = (tp, offset)
        self.lost.discard((record.ledger, record.process, tp, record.epoch, record.seq))

    def hops_left(self, hops: int) -> int:
        """Draw the hops left for a message: messages cause messages, up to a limit."""
        return hops if len(self.history.executions) < EXECUTIONS_MAX else 0

    def any_input(self) -> TopicPartition:
        topic = self.rng.choice(self.plan.externals)
        return TopicPartition(topic, self.rng.randrange(self.partitions[topic]))

    def land(self) -> bool:
        """Let the broker serve a send that its sender has given up."""
        if not self.in_queue:
            return False
        self.append_late(*self.in_queue.pop(self.rng.randrange(len(self.in_queue))))
        self.count("landed_late")
        return True

    # -- what the author of a trigger, and later assembly, see of apps that do not run (R10) ---------------------

    def look(self, ends: tuple[LogEnd, ...]) -> Seen | None:
        """Return what the author of a trigger sees; None: an app that is to be stopped has members, so it is
        refused."""
        known = {TopicPartition(end.topic, end.partition): end.end for end in ends}
        try:
            found = tuple(
                _answer(stopped_app.stopped_app(cast(TopicAdmin, SimAdmin(self)), self.fold, view, known))
                for view in self.fold.stopped(self.plan.scope)
            )
        except TriggerRefusedError:
            return None
        self.counts["stopped_apps"] += len(found)
        return len(self.broker.ledger), ends, found

    def _captured(self, epoch: int) -> None:
        """Note what assembly finds out when it follows the capture at once."""
        if self.fold.snapshots[epoch].stopped:
            question = stopped_app.ran_since(
                cast(TopicAdmin, SimAdmin(self)), self.fold, self.fold.captured(epoch)
            )
            self.ran[self.broker.ledger_id, epoch] = _answer(question)


class SimAdmin:
    """The cluster, as `stopped_app` asks for it."""

    def __init__(self, world: Surroundings) -> None:
        self._world = world

    async def group_members(self, group: str) -> list[object]:
        return [p for p in self._world.processes if p.app.name == group and p.connected]

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        committed = self._world.broker.committed
        return {tp: (offset, "") for (app, tp), offset in committed.items() if app == group}

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self._world.broker.log(tp)) for tp in partitions}

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[tuple[str, bytes | None], ...]]:
        places = ((tp, at, self._world.broker.log(tp)) for tp, at in positions.items())
        return {
            tp: ((HEADER, b""),) if log[at].process >= 0 else () for tp, at, log in places if at < len(log)
        }


def _answer(question: Coroutine[Any, Any, T]) -> T:
    """Run a question whose answers are there."""
    try:
        question.send(None)
    except StopIteration as answer:
        return cast(T, answer.value)
    raise AssertionError("nothing here waits")
