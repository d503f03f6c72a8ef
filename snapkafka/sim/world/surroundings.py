"""The surroundings of the processes of the simulator: what a process may ask of its world."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from typing import Final, Generic, TypeVar

from snapkafka.drivers.machine_driver import MachineDriver
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import Hello, LedgerRecord, TailLost, TopicPartition

from .broker_log import SimBroker, SimStored
from .history import History
from .world_plan import WorldPlan

#: Once so many events have run, what they send leads to nothing more.
EXECUTIONS_MAX: Final = 36

#: A process.
P = TypeVar("P", bound=MachineDriver)


class Surroundings(ABC, Generic[P]):
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
        self.processes: list[P] = []
        self.processes_ever: list[P] = []
        self.generation: Counter[str] = Counter()
        self.unbalanced: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.healthy = False
        self.ledgers: list[tuple[LedgerState, SimBroker]] = []
        self._numbers = 10**6
        #: Sends that timed out for who sent them, and that the broker has still to serve.
        self.in_queue: list[tuple[TopicPartition, SimStored]] = []
        #: Seqs whose sender was notified of their failure, and that are in no log: (ledger, process, place, epoch).
        self.lost: set[tuple[int, int, TopicPartition, int, int]] = set()
        self.ran: dict[tuple[int, int], str] = {}  # (ledger, epoch) -> why an app that was stopped has run
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

    # -- what processes ask ------------------------------------------------------------------------------------

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
                self.captured(epoch)
        self.count(type(record).__name__)
        if isinstance(record, Hello) and self.fold.highest_epoch:
            self.count("born_red")
        self.say(f"ledger {offset} {type(record).__name__}")
        if isinstance(record, TailLost) and offset + 1 < record.upto and not self.chance("fill-ends"):
            return self.append_to_ledger(record)
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

    @abstractmethod
    def meets(self, process: P, record: SimStored, how: str) -> bool:
        """Note that a record is about to be taken in, by a consumer, a table, a reply (`how`); return whether it is
        held back."""

    @abstractmethod
    def captured(self, epoch: int) -> None:
        """Note what assembly sees when a snapshot is captured."""

    @abstractmethod
    def forget_due(self, since: int) -> None:
        """Forget when attempts are due whose trigger is lost."""

    @abstractmethod
    def forget_ends(self) -> None:
        """Forget log ends that were asked for: the ledger has lost its tail, or is another one."""

    @abstractmethod
    def commit(self, process: P) -> None:
        """Commit for a process."""

    @abstractmethod
    def rewind(self, process: P) -> None:
        """Let a process go back to what is committed: it has aborted its transaction."""

    @abstractmethod
    def announce(self, process: P) -> None:
        """Report to a process where its inputs start."""

    # -- lives -------------------------------------------------------------------------------------------------

    @abstractmethod
    def launch(self, app: str) -> None:
        """Start a process."""

    @abstractmethod
    def crash(self, process: P) -> None:
        """Crash a process: what was not in the log or in the ledger is lost; an open transaction is aborted."""

    @abstractmethod
    def stop(self, process: P) -> bool:
        """Stop a process in order, if it has nothing in flight: it commits and appends `Bye`."""
