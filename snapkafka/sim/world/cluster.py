"""The cluster of the simulator, as processes and the authors of triggers see it: the broker, its groups, the ledger,
chance, and the history that the judge reads."""

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

T = TypeVar("T")
#: Once so many events have run, what they send leads to nothing more.
EXECUTIONS_MAX: Final = 36
#: What a process does now and then, by how often beside all else; in some worlds other things are slow, too.
RARE: Final = dict.fromkeys(("commit", "commit-transaction", "tick"), 0.1)
#: What the author of a trigger sees: how far the ledger is written, the ends of the inputs, and the stopped apps.
Seen = tuple[int, tuple[LogEnd, ...], tuple[StoppedApp, ...]]


class Cluster:
    """What a process, or the author of a trigger, may ask."""

    def __init__(self, plan: WorldPlan, seed: int) -> None:
        self.plan, self.slow = plan, plan.slow | RARE
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
        self.idle: set[Any] = set()  # who could do nothing, and has seen nothing since
        self.healthy = False
        self._numbers = 10**6
        self.asked: Seen | None = None  # what the author of the next trigger has seen
        #: Sends that timed out for who sent them, and that the broker has still to serve.
        self.in_queue: list[tuple[TopicPartition, SimStored]] = []
        #: The epochs of sends that failed for their sender, and were not undone: by (ledger, process, place, seq).
        self.failed: dict[tuple[int, int, TopicPartition, int], int] = {}
        self.ran: dict[tuple[int, int], str] = {}  # (ledger, epoch) -> why an app that was stopped has run
        #: Where a process stood when it handed over its state, by ledger, process and epoch.
        self.given: dict[tuple[int, int, int], tuple[Position, ...]] = {}

    # -- chance ------------------------------------------------------------------------------------------------

    def draws(self, fault: str) -> bool:
        """Return whether chance wants a fault here."""
        share = 0.0 if self.healthy else self.plan.faults.get(fault, 0.0)
        return share > 0 and self.rng.random() < share

    def chance(self, fault: str) -> bool:
        """Return whether a fault happens here, and count it."""
        if happens := self.draws(fault):
            self.count(fault)
        return happens

    def pick(self, n: int, near: int) -> int:
        """Choose the partition, among `n`, to which an event of the partition `near` sends something."""
        return self.rng.randrange(n)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def say(self, line: str) -> None:
        """Note what happens, so that whoever had nothing to do looks again."""
        self.trace.append(line)
        self.idle.clear()

    def topic_id(self, topic: str) -> str:
        """Return Kafka's id of a topic that may be recreated."""
        return f"{topic} {self.topic_ids[topic]}" if topic in self.plan.recreated else ""

    def hops_left(self, hops: int) -> int:
        """Draw the hops left for a message: messages cause messages, up to a limit."""
        return hops if len(self.history.executions) < EXECUTIONS_MAX else 0

    # -- logs --------------------------------------------------------------------------------------------------

    def inputs(self) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for topic, count in self.partitions.items() for p in range(count)]

    def input_comes(self) -> None:
        """Append a record from outside."""
        tp = self.rng.choice(self.inputs())
        self.broker.append(tp, SimStored(hops=self.plan.hops))
        self.say(f"outside {tp}")

    def append_late(self, tp: TopicPartition, record: SimStored) -> None:
        self.history.steps[record.step].record = (tp, self.broker.append(tp, record))

    def append_to_ledger(self, record: LedgerRecord) -> int:
        """Append a record; assembly follows a capture at once."""
        offset = len(self.broker.ledger)
        self.broker.ledger.append(record)
        before = list(self.fold.open)
        self.fold.apply(offset, record)
        for epoch in before:
            if self.fold.snapshots[epoch].captured_at is not None and self.fold.snapshots[epoch].stopped:
                captured, admin = self.fold.captured(epoch), cast(TopicAdmin, self)
                found = answer(stopped_app.ran_since(admin, self.fold, captured))
                self.ran[self.broker.ledger_id, epoch] = found
        self.count(type(record).__name__)
        if isinstance(record, Hello) and self.fold.highest_epoch:
            self.count("born_red")
        self.say(f"ledger {offset} {type(record).__name__}")
        return offset

    # -- as the author of a trigger, and later assembly, ask about apps that do not run (R10) -------------------

    def look(self, ends: tuple[LogEnd, ...]) -> Seen | None:
        """Return what the author of a trigger sees; None: an app that is to be stopped has members, so it is refused
        (R10)."""
        known = {TopicPartition(end.topic, end.partition): end.end for end in ends}
        admin = cast(TopicAdmin, self)
        try:
            found = tuple(
                answer(stopped_app.stopped_app(admin, self.fold, view, known))
                for view in self.fold.stopped(self.plan.scope)
            )
        except TriggerRefusedError:
            return None
        self.counts["stopped_apps"] += len(found)
        return len(self.broker.ledger), ends, found

    async def group_members(self, group: str) -> list[object]:
        return [p for p in self.processes if p.app.name == group and p.connected]

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        committed = self.broker.committed
        return {tp: (offset, "") for (app, tp), offset in committed.items() if app == group}

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.broker.log(tp)) for tp in partitions}

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[tuple[str, bytes | None], ...]]:
        places = ((tp, at, self.broker.log(tp)) for tp, at in positions.items())
        return {
            tp: ((HEADER, b""),) if log[at].process >= 0 else () for tp, at, log in places if at < len(log)
        }


def answer(question: Coroutine[Any, Any, T]) -> T:
    """Run a question whose answers are there."""
    try:
        question.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    raise AssertionError("nothing here waits")
