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

from snapkafka.protocol.actions import AskStopped
from snapkafka.protocol.completion import LedgerState
from snapkafka.protocol.events import (
    CameBack,
    InputGiven,
    InputsGiven,
    InputsTaken,
    LedgerRecreated,
    StopAsked,
    StoppedSeen,
    TriggerAppended,
    WentAbsent,
)
from snapkafka.protocol.records import (
    ChangelogEnd,
    CutReport,
    Hello,
    LedgerRecord,
    LogEnd,
    Position,
    TopicPartition,
    Trigger,
)
from snapkafka.protocol.retries import pause_after

from .history import History, Memory
from .log import ABORTED, FORGER, OPEN, Broker, Stored
from .plan import Plan
from .process import Consumer, Process

__all__ = ["World"]


#: Once so many events have run, what they send leads to nothing more.
EXECUTIONS_MAX: Final = 36
#: What a process does now and then.
RARE: Final = frozenset({"commit", "commit-transaction", "tick"})
#: Steps of the system between a failed attempt and the next one: the first time, and at most.
PAUSE_STEPS: Final = 10
PAUSE_STEPS_MAX: Final = 100


#: Stands for every process of a ledger that is gone.
GONE: Final = -2


class World:
    """All of it. `step()` lets one thing happen."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan = plan
        self.rng = random.Random(f"run {seed}")
        self.broker = Broker()
        self.history = History()
        self.fold = LedgerState()
        self.agents = {agent.name: agent for app in plan.apps for agent in app.agents}
        self.apps = {app.name: app for app in plan.apps}
        self.readers = {t: [app.name for app in plan.apps if t in app.topics] for t in plan.externals}
        self.partitions = dict.fromkeys(plan.externals, max((a.partitions for a in plan.apps), default=1))
        self.shared_tp = TopicPartition("global", 0)
        self.processes: list[Process] = []
        self.processes_ever: list[Process] = []
        self.generation: Counter[str] = Counter()
        self.unbalanced: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.healthy = False
        self.waited = 0
        self._numbers = 10**6
        self._inputs_left, self._snapshots_left = plan.inputs, plan.snapshots
        self._due: dict[
            tuple[int, int], float
        ] = {}  # (ledger, epoch that failed) -> when it is asked for again
        self.ledgers: list[tuple[LedgerState, Broker]] = []
        for app in plan.apps:
            for _ in range(app.workers):
                self.launch(app.name)

    # -- chance ------------------------------------------------------------------------------------------------

    def chance(self, fault: str) -> bool:
        share = 0.0 if self.healthy else self.plan.faults.get(fault, 0.0)
        return share > 0 and self.rng.random() < share

    def pick(self, n: int, what: str) -> int:
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
        if not self.healthy and self._fault():
            return True
        if self.unbalanced and (self.healthy or self.rng.random() < 0.2):
            self.rebalance(min(self.unbalanced))
            return True
        if self._outside():
            return True
        awake = [process for process in self.processes if not process.paused]
        self.rng.shuffle(awake)
        for process in awake:
            options = list(process.choices())
            if not options:
                continue
            weights = [self._weight(kind) for kind, _ in options]
            ((kind, what),) = self.rng.choices(options, weights)
            self.say(f"p{process.number} {kind} {_told(what)}")
            process.do(kind, what)
            return True
        return bool(self.unbalanced)

    def _weight(self, kind: str) -> float:
        """Some things happen more rarely than others, and in this world some are slow."""
        if kind in RARE:
            return 0.1
        return 1.0 if self.healthy else self.plan.slow.get(kind, 1.0)

    def _outside(self) -> bool:
        """External input, and triggers."""
        if self._inputs_left and self.rng.random() < 0.05:
            self._inputs_left -= 1
            tp = self._any_input()
            self.broker.append(tp, Stored(hops=self.plan.hops))
            self.say(f"outside {tp}")
            return True
        if self._snapshots_left and self.rng.random() < 0.02 and any(True for _ in self.fold.living()):
            self._snapshots_left -= 1
            self.trigger(f"s{self._snapshots_left}")
            return True
        return self.plan.retries > 0 and self._ask_again()

    def _ask_again(self) -> bool:
        """What failed some time ago is asked for again, as the next attempt."""
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
        """Where the ledger tells nobody of a snapshot, somebody who takes part has to ask for it."""
        joined = [p for p in self.processes if p.joined and not p.paused]
        if joined:
            process = self.rng.choice(joined)
            process.feed(TriggerAppended(n=record.n))
            process.posts.append(record)

    def append_to_ledger(self, record: LedgerRecord) -> int:
        offset = len(self.broker.ledger)
        self.broker.ledger.append(record)
        self.fold.apply(offset, record)
        self.count(type(record).__name__)
        if isinstance(record, CutReport) and record.supplement:
            self.count("supplements")
        if isinstance(record, Hello) and self.fold.highest_epoch:
            self.count("born_red")
        self.say(f"ledger {offset} {type(record).__name__}")
        return offset

    # -- what processes ask ------------------------------------------------------------------------------------

    def meets(self, process: Process, record: Stored, how: str) -> None:
        """A record is about to be taken in, by a consumer, a table, a reply (`how`)."""
        process.meet(record)

    def waits(self, process: Process) -> None:
        """A send waits for a snapshot: only in classic mode, or for an identity."""
        if process.machine.process is not None and not self.plan.classic:
            self.waited += 1

    def hops_left(self, hops: int) -> int:
        """Messages beget messages; past so many, no more."""
        return hops if len(self.history.executions) < EXECUTIONS_MAX else 0

    def stopped_app(self, action: AskStopped) -> StoppedSeen:
        committed = self.broker.committed
        changelogs = [
            ChangelogEnd(
                table=t.name,
                topic=t.changelog,
                partition=p,
                end=len(self.broker.log(TopicPartition(t.changelog, p))),
            )
            for t in action.tables
            for p in range(t.partitions)
        ]
        self.count("stopped_apps")
        return StoppedSeen(
            epoch=action.epoch,
            app=action.app,
            asked_at=action.asked_at,
            positions=tuple(
                Position(
                    agent="*",
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=committed.get((action.app, tp), 0),
                    replay_until=self._replay_until(action.app, tp),
                )
                for tp in action.inputs
            ),
            changelogs=tuple(changelogs),
            ends=tuple(
                LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.broker.log(tp)))
                for tp in action.inputs
            ),
        )

    def commit(self, process: Process) -> None:
        if process.consumer.generation != self.generation[process.app.name] or not process.connected:
            self.count("fenced_commits")
            return
        for tp in process.consumer.fetch:
            key = (process.app.name, tp)
            self.broker.committed[key] = max(process.committable(tp), self.broker.committed.get(key, 0))

    # -- groups ------------------------------------------------------------------------------------------------

    def rebalance(self, app_name: str) -> None:
        """Everything is taken from everybody, and given anew. Who is paused hears of it later."""
        self.unbalanced.discard(app_name)
        app = self.apps[app_name]
        members = [p for p in self.processes if p.app is app and p.connected]
        self.count("rebalances")
        self.say(f"rebalance {app_name}")
        for process in members:
            if not self.chance("revoke-uncommitted"):
                self.commit(process)
            self.revoke(process)
        self.generation[app_name] += 1
        if not members:
            return
        shift = self.rng.randrange(len(members))
        everything = [TopicPartition(t, p) for t in app.topics for p in range(self.partitions[t])]
        for index, process in enumerate(members):
            mine = [tp for tp in everything if (tp.partition + shift) % len(members) == index]
            self.give(process, mine)

    def revoke(self, process: Process) -> None:
        process.consumer = Consumer()
        process.feed(InputsTaken())

    def give(self, process: Process, inputs: list[TopicPartition]) -> None:
        """Recover the tables (R2 holds for their records too), and start where the group has committed."""
        app = process.app
        partitions = sorted({tp.partition for tp in inputs})
        memory: dict[int, Memory] = {}
        for partition in partitions:
            memory[partition] = process.memory.get(partition) or self._recover(process, partition)
        process.memory = memory
        process.consumer = Consumer(generation=self.generation[app.name])
        for tp in inputs:
            process.consumer.fetch[tp] = self.broker.committed.get((app.name, tp), 0)
        process.feed(
            InputsGiven(
                generation=self.generation[app.name],
                inputs=tuple(
                    InputGiven(
                        tp=tp,
                        agents=tuple(a.name for a in app.agents if a.topic == tp.topic),
                        position=process.consumer.fetch[tp],
                        replay_until=self._replay_until(app.name, tp),
                    )
                    for tp in inputs
                ),
                changelogs=tuple(
                    ChangelogEnd(
                        table="t",
                        topic=app.changelog,
                        partition=p,
                        end=len(self.broker.log(TopicPartition(app.changelog, p))),
                    )
                    for p in partitions
                ),
            )
        )

    def _recover(self, process: Process, partition: int) -> Memory:
        memory: Memory = {}
        for record in self.broker.log(TopicPartition(process.app.changelog, partition)):
            if record.state == ABORTED or record.state == OPEN or record.step < 0:
                continue
            self.meets(process, record, "recovery")
            self.history.recovered(memory, record.key, record.value, record.step)
        return memory

    def _replay_until(self, app: str, tp: TopicPartition) -> int:
        """Up to where the changelog shows effects of events of this input."""
        log = self.broker.log(TopicPartition(self.apps[app].changelog, tp.partition))
        causes = [
            r.cause[1] + 1 for r in log if r.cause is not None and r.cause[0] == tp and r.state != ABORTED
        ]
        return max(causes, default=0)

    # -- lives -------------------------------------------------------------------------------------------------

    def launch(self, app: str) -> None:
        process = Process(self, len(self.processes_ever), self.apps[app])
        self.processes.append(process)
        self.processes_ever.append(process)
        self.unbalanced.add(app)
        self.say(f"p{process.number} launched for {app}")

    def crash(self, process: Process) -> None:
        """All that was not in the log or in the ledger is gone; an open transaction is aborted."""
        self.count("crashes")
        self.say(f"p{process.number} crashed")
        self._end(process)
        for running in (*process.running, *process.finished):
            running.execution.died = True
        for sending in process.transaction:
            sending.record.state = ABORTED

    def _end(self, process: Process) -> None:
        self.processes.remove(process)
        self.unbalanced.add(process.app.name)

    def stop(self, process: Process) -> bool:
        """It leaves of its own accord, if it has nothing under way: commits, says `Bye`."""
        busy = (
            process.running,
            process.buffer,
            process.waiting,
            process.posts,
            process.transaction,
            process.ends,
        )
        if any(busy) or any(process.outbox.values()) or any(process.unacked.values()) or not process.joined:
            return False
        self.commit(process)
        process.feed(StopAsked())
        while process.posts:
            self.append_to_ledger(process.posts.popleft())
        self._end(process)
        self.count("stops")
        self.say(f"p{process.number} stopped")
        return True

    # -- faults ------------------------------------------------------------------------------------------------

    def _fault(self) -> bool:
        processes = [p for p in self.processes if not p.paused]
        if processes and self.chance("crash"):
            self.crash(self.rng.choice(processes))
        elif self.chance("restart"):
            missing = [a.name for a in self.plan.apps if sum(p.app is a for p in self.processes) < a.workers]
            if not missing:
                return False
            self.launch(self.rng.choice(missing))
        elif self.chance("rebalance"):
            self.unbalanced.add(self.rng.choice(self.plan.apps).name)
        elif processes and self.chance("pause"):
            self.rng.choice(processes).paused = True
            self.count("pauses")
        elif self.chance("wake"):
            return self._wake()
        elif self.chance("expire"):
            asking = [(p, epoch) for p in processes for epoch in sorted(p.timers & self.fold.open.keys())]
            if not asking:
                return False
            process, epoch = self.rng.choice(asking)
            self.count("expired")
            process.expire(epoch)
        elif processes and self.chance("stop"):
            return self.stop(self.rng.choice(processes))
        elif self.chance("partition"):
            topic = self.rng.choice(self.plan.externals)
            self.partitions[topic] += 1
            self.count("partitions_added")
            self.unbalanced |= {app.name for app in self.plan.apps if topic in app.topics}
        elif self.chance("forge"):
            self._forge()
        elif self.chance("copy"):
            self._copy()
        elif self.chance("recreate"):
            self.recreate_ledger()
        elif processes and self.chance("absent"):
            self._absent(self.rng.choice(processes))
        else:
            return False
        return True

    def _wake(self) -> bool:
        """Who was paused goes on; if its group had thrown it out meanwhile, it is a zombie for a while."""
        asleep = [p for p in self.processes if p.paused]
        if not asleep:
            return False
        process = self.rng.choice(asleep)
        if process.connected and self.rng.random() < 0.5:
            process.connected = False  # the group gives up on it, and somebody else reads its inputs
            self.unbalanced.add(process.app.name)
            return True
        process.paused = False
        if not process.connected and process.consumer.generation != self.generation[process.app.name]:
            self.count("zombies")
            for _ in range(self.rng.randrange(8)):
                options = [c for c in process.choices() if c[0] not in ("commit", "ledger")]
                if not options:
                    break
                process.do(*self.rng.choice(options))
            self.revoke(process)
        if not process.connected:
            process.connected = True
            self.unbalanced.add(process.app.name)
        return True

    def _forge(self) -> None:
        """A stranger writes a record with a header that it made up."""
        tp = self._any_input()
        epoch = self.rng.randrange(1, len(self.broker.ledger) + 20)
        if self.fold.is_epoch(epoch):
            return  # that one would be true
        self.broker.append(tp, Stored(process=FORGER, epoch=epoch, seq=0, ledger=self.broker.ledger_id))
        self.count("forged")

    def _copy(self) -> None:
        """A stranger writes a record with a header that it copied from elsewhere: it is external."""
        self.broker.append(self._any_input(), Stored())
        self.count("copied")

    def _any_input(self) -> TopicPartition:
        topic = self.rng.choice(self.plan.externals)
        return TopicPartition(topic, self.rng.randrange(self.partitions[topic]))

    def _absent(self, process: Process) -> None:
        if process.running or process.buffer or not process.joined:
            return
        self.count("absences")
        process.feed(WentAbsent())
        process.feed(CameBack())

    def recreate_ledger(self) -> None:
        """The ledger is deleted and made anew: every id and epoch of the old one is void."""
        self.count("ledgers_recreated")
        self.say("ledger recreated")
        self.ledgers.append((self.fold, self.broker))
        self.broker.ledger = []
        self.broker.ledger_id += 1
        self.fold = LedgerState()
        for execution in self.history.executions:
            execution.process = GONE  # its number may be that of another process from here on
        for process in self.processes:
            process.read = 0
            process.posts.clear()
            process.ends.clear()
            process.stopped.clear()
            process.timers.clear()
            process.feed(LedgerRecreated())

    # -- the end -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """From here on nothing goes wrong: who is missing comes back, who sleeps wakes up."""
        self.healthy = True
        for process in self.processes:
            if process.paused or not process.connected:
                process.paused = False
                if process.consumer.generation != self.generation[process.app.name]:
                    self.revoke(process)
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
