"""The world of the simulator: workers that come and go, groups that rebalance, triggers, and what goes wrong.

One random number generator decides; the same seed gives the same run, byte for byte.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from snapkafka.backoff import pause_after
from snapkafka.protocol.events import (
    StopAsked,
    TriggerAppended,
)
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import (
    Bye,
    CutReport,
    Hello,
    LedgerRecord,
    LogEnd,
    TailLost,
    TopicPartition,
    Trigger,
)

from .faults import strike
from .groups import commit, rebalance, revoke, run_without
from .history import History
from .log import ABORTED, Broker, Stored
from .plan import Plan
from .process import Process
from .sending import Sender

__all__ = ["World"]


#: Once so many events have run, what they send leads to nothing more.
EXECUTIONS_MAX: Final = 36
#: What a process does now and then, by how often beside all else; in some worlds other things are slow, too.
RARE: Final = dict.fromkeys(("commit", "commit-transaction", "tick"), 0.1)
#: Steps of the system between a failed attempt and the next one: the first time, and at most.
PAUSE_STEPS: Final = 10
PAUSE_STEPS_MAX: Final = 100


class World:
    """All of it. `step()` lets one thing happen."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.rng = random.Random(f"run {seed}")
        self.broker = Broker(strips=frozenset(plan.stripped))
        self.history = History()
        self.fold = LedgerState()
        self.agents = {agent.name: agent for app in plan.apps for agent in app.agents}
        self.apps = {app.name: app for app in plan.apps}
        self.readers = {t: [app.name for app in plan.apps if t in app.topics] for t in plan.externals}
        self.partitions = dict.fromkeys(plan.externals, max((a.partitions for a in plan.apps), default=1))
        self.shared_tp = TopicPartition("global", 0)
        self.topic_ids = dict.fromkeys(plan.externals, 0)  # how often each was recreated
        self.processes: list[Process] = []
        self.processes_ever: list[Process] = []
        self.generation: Counter[str] = Counter()
        self.unbalanced: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.healthy = False
        self._weights = plan.slow | RARE
        self.waited = 0
        self._numbers = 10**6
        self._inputs_left, self._snapshots_left = plan.inputs, plan.snapshots
        self._due: dict[
            tuple[int, int], float
        ] = {}  # (ledger, epoch that failed) -> when it is asked for again
        self.ledgers: list[tuple[LedgerState, Broker]] = []
        #: Sends that timed out for who sent them, and that the broker has still to serve.
        self.in_queue: list[tuple[TopicPartition, Stored]] = []
        #: Seqs that their sender was told of as failed, and that are in no log: (ledger, process, place, epoch).
        self.lost: set[tuple[int, int, TopicPartition, int, int]] = set()
        #: Seqs that their sender was ever told of as failed, and not as undone: (ledger, process, place, seq).
        self.told_failed: set[tuple[int, int, TopicPartition, int]] = set()
        for name in plan.off:
            joined = self.append_to_ledger(Hello(n=self.number(), app=name))
            self.append_to_ledger(Bye(process=joined, n=1))
        for app in plan.apps:
            for _ in range(app.workers):
                self.launch(app.name)

    # -- chance ------------------------------------------------------------------------------------------------

    def chance(self, fault: str) -> bool:
        share = 0.0 if self.healthy else self.plan.faults.get(fault, 0.0)
        return share > 0 and self.rng.random() < share

    def pick(self, n: int, near: int) -> int:
        """To which of `n` partitions something is sent, by an event of the partition `near`."""
        return self.rng.randrange(n)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def say(self, line: str) -> None:
        self.trace.append(line)

    # -- one step ----------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Let one thing happen; False: nothing can."""
        if not self.healthy and strike(self):
            return True
        if self.healthy and self._restart_bare():
            return True
        if self.unbalanced and (self.healthy or self.rng.random() < 0.2):
            rebalance(self, min(self.unbalanced))
            return True
        if self._outside():
            return True
        awake = [process for process in self.processes if not process.paused]
        self.rng.shuffle(awake)
        for process in awake:
            options = list(process.choices())
            if not options:
                continue
            weights = RARE if self.healthy else self._weights
            ((kind, what),) = self.rng.choices(options, [weights.get(kind, 1.0) for kind, _ in options])
            self.say(f"p{process.number} {kind} {_told(what)}")
            process.do(kind, what)
            return True
        return bool(self.unbalanced)

    def _outside(self) -> bool:
        """External input, and triggers."""
        if self._inputs_left and self.rng.random() < 0.05:
            self._inputs_left -= 1
            tp = self.any_input()
            self.broker.append(tp, Stored(hops=self.plan.hops))
            self.say(f"outside {tp}")
            return True
        if self._snapshots_left and self.rng.random() < 0.02 and any(True for _ in self.fold.living()):
            self._snapshots_left -= 1
            self.trigger(f"s{self._snapshots_left}")
            return True
        return self.plan.retries > 0 and self._ask_again()

    def topic_id(self, topic: str) -> str:
        """Kafka's own, of a topic that may be recreated."""
        return f"{topic} {self.topic_ids[topic]}" if topic in self.plan.recreated else ""

    def any_input(self) -> TopicPartition:
        topic = self.rng.choice(self.plan.externals)
        return TopicPartition(topic, self.rng.randrange(self.partitions[topic]))

    def _ask_again(self) -> bool:
        """Trigger again what failed some time ago, as the next attempt."""
        for epoch, view in self.fold.snapshots.items():
            id_, attempt = view.trigger.id, view.trigger.attempt
            if view.failure is None or attempt > self.plan.retries or (id_, attempt + 1) in self.fold.by_id:
                continue
            place = (self.broker.ledger_id, epoch)
            if place not in self._due:
                pause = pause_after(attempt, self.rng.random(), first=PAUSE_STEPS, most=PAUSE_STEPS_MAX)
                self._due[place] = len(self.trace) + pause
            if len(self.trace) >= self._due[place]:
                self._due[place] = math.inf
                self.count("retries")
                self.trigger(id_, attempt=attempt + 1)
                return True
        return False

    def trigger(self, name: str, attempt: int = 1) -> int:
        """Ask for a snapshot; the epoch."""
        inputs = sorted(
            TopicPartition(topic, p)
            for app in self.plan.apps
            for topic in app.topics
            for p in range(self.partitions[topic])
        )
        times = 2 if self.chance("twin-trigger") else 1
        record = Trigger(
            n=self.number(),
            id=name,
            attempt=attempt,
            ends=tuple(
                LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.broker.log(tp)))
                for tp in sorted(set(inputs))
            ),
            marker_topics=self.plan.marker_topics,
            apps=self.plan.scope,
            run_without=run_without(self) if self.plan.scope else (),
        )
        if "ledger" not in self.plan.hear:
            self._trigger_by_a_process(record)
            return 0
        epoch = self.append_to_ledger(record) + 1
        if times == 2:
            self.append_to_ledger(replace(record, n=self.number(), ends=()))
            self.count("twin_triggers")
        return epoch

    def _trigger_by_a_process(self, record: Trigger) -> None:
        """Where the ledger informs nobody of a snapshot, somebody who takes part has to ask for it."""
        joined = [p for p in self.processes if p.joined and not p.paused]
        if joined:
            process = self.rng.choice(joined)
            process.feed(TriggerAppended(n=record.n))
            process.posts.append(record)

    def append_to_ledger(self, record: LedgerRecord, *, refused: bool = False) -> int:
        """Append a record, with the key of the tools or (`refused`) another."""
        offset = len(self.broker.ledger)
        self.broker.ledger.append(record)
        if refused:
            self.broker.refused.add(offset)
        self.fold.apply(offset, None if refused else record, refused=record if refused else None)
        self.count(type(record).__name__)
        if isinstance(record, CutReport) and record.supplement:
            self.count("supplements")
        if isinstance(record, Hello) and self.fold.highest_epoch:
            self.count("born_red")
        self.say(f"ledger {offset} {type(record).__name__}")
        if isinstance(record, TailLost) and offset + 1 < record.upto and not self.chance("fill-ends"):
            return self.append_to_ledger(record, refused=refused)
        return offset

    def forget_due(self, since: int) -> None:
        """Forget when attempts are due whose trigger is lost."""
        self._due = {place: due for place, due in self._due.items() if place[1] <= since}

    # -- what processes ask ------------------------------------------------------------------------------------

    def meets(self, process: Process, record: Stored, how: str) -> None:
        """A record is about to be taken in, by a consumer, a table, a reply (`how`)."""
        process.meet(record)

    def land(self) -> bool:
        """The broker serves what its sender has given up."""
        if not self.in_queue:
            return False
        self.append_late(*self.in_queue.pop(self.rng.randrange(len(self.in_queue))))
        self.count("landed_late")
        return True

    def append_late(self, tp: TopicPartition, record: Stored) -> None:
        offset = self.broker.append(tp, record)
        self.history.steps[record.step].record = (tp, offset)
        self.lost.discard((record.ledger, record.process, tp, record.epoch, record.seq))

    def waits(self, process: Sender) -> None:
        """A send waits for a snapshot: only in classic mode, or for an identity."""
        if process.machine.process is not None and not self.plan.classic:
            self.waited += 1

    def hops_left(self, hops: int) -> int:
        """Messages beget messages; past so many, no more."""
        return hops if len(self.history.executions) < EXECUTIONS_MAX else 0

    # -- lives -------------------------------------------------------------------------------------------------

    def launch(self, app: str) -> None:
        without = (app in self.plan.off and not self.healthy) or self.chance("bare")
        late = not without and self.chance("late-hello")
        process = Process(self, len(self.processes_ever), self.apps[app], without=without, late=late)
        self.count("bare_starts" if without else "starts")
        self.processes.append(process)
        self.processes_ever.append(process)
        self.unbalanced.add(app)
        self.say(f"p{process.number} launched for {app}")

    def crash(self, process: Process) -> None:
        """All that was not in the log or in the ledger is removed; an open transaction is aborted."""
        self.count("crashes")
        self.say(f"p{process.number} crashed")
        self._end(process)
        for running in (*process.running, *process.finished):
            running.execution.died = True
        for sending in process.transaction:
            sending.record = self.broker.end(sending.tp, sending.offset, ABORTED)

    def _end(self, process: Process) -> None:
        self.processes.remove(process)
        self.unbalanced.add(process.app.name)

    def _restart_bare(self) -> bool:
        """Restart with snapkafka a process that runs without, as soon as it has nothing under way."""
        for process in [p for p in self.processes if p.bare and not p.signs_otherwise]:
            if self.stop(process):
                self.launch(process.app.name)
                return True
        return False

    def stop(self, process: Process) -> bool:
        """It leaves of its own accord, if it has nothing under way: commits, sends `Bye`."""
        busy = (
            process.running,
            process.buffer,
            process.waiting,
            process.posts,
            process.transaction,
            process.ends,
        )
        if (
            process.lost is not None
            or any(busy)
            or any(process.outbox.values())
            or any(process.unacked.values())
        ):
            return False
        if process.greeting or not (process.joined or process.bare):
            return False
        if process.bare and any(process.consumer.queues.values()):
            return False  # another agent has run some of it: a replay later, which no header would show
        commit(self, process)
        process.feed(StopAsked())
        while process.posts:
            self.append_to_ledger(process.posts.popleft())
        self._end(process)
        self.count("stops")
        self.say(f"p{process.number} stopped")
        return True

    # -- the end -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """From here on nothing goes wrong: who is missing comes back, who sleeps wakes up."""
        self.healthy = True
        for process in self.processes:
            process.hung = False
            if process.paused or not process.connected:
                process.paused = False
                if process.consumer.generation != self.generation[process.app.name]:
                    revoke(self, process)
                process.connected = True
                self.unbalanced.add(process.app.name)
        for app in self.plan.apps:
            while sum(p.app is app for p in self.processes) < app.workers:
                self.launch(app.name)

    def bury(self) -> Iterable[int]:
        """Processes that the ledger counts among the living, and that are not."""
        here = {p.machine.process for p in self.processes}
        return [view.process for view in self.fold.living() if view.process not in here]


def _told(what: object) -> str:
    return "" if what is None else str(getattr(what, "cause", what))
