"""The small world of `restore_runs`: an app with two agents on one input, a sender, and somebody external."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from snapkafka.protocol import Hello, InputTopic, LedgerState, TopicPartition
from snapkafka.protocol.offsets import NOBODY
from snapkafka.protocol.records import LedgerRecord
from snapkafka.protocol.restores import Rule

INPUT, CHANGELOG = TopicPartition("in", 0), TopicPartition("p-t-changelog", 0)
AGENTS: Final = ("x", "y")
SENT_SINCE: Final = 3


class SimMessage(NamedTuple):
    """A record of the input: its id, and its sender (`NOBODY`: external)."""

    id: int
    process: int
    copied: bool = False  # by a restore


class SimWritten(NamedTuple):
    """A record of the changelog: the whole state of one agent."""

    agent: str
    value: tuple[int, ...]
    process: int


@dataclass
class Cut:
    """A snapshot, and the expected result of its restore."""

    positions: dict[str, int]
    skipped: dict[str, frozenset[int]]
    state: dict[str, tuple[int, ...]]
    in_flight: dict[int, int]  # offset -> message
    end: int


@dataclass
class RestoringWorker:
    """A process of app p: the positions of its agents, and their tables."""

    process: int
    state: dict[str, tuple[int, ...]]
    at: int  # first offset not read
    rules: dict[str, Rule]
    runs_on: frozenset[str]  # restores of before


@dataclass
class SmallWorld:
    """The surroundings of a restore: the ledger, logs, workers, senders and snapshots. `wrong` lists the
    violations."""

    seed: int
    broken: frozenset[str] = frozenset()
    ledger: LedgerState = field(default_factory=LedgerState)
    log: list[SimMessage] = field(default_factory=list)
    changelog: list[SimWritten] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"restore {self.seed}")
        self.number, self.fresh = count(1).__next__, count(1).__next__
        self.begin = 0  # of the input: what lies below is deleted
        self.topic_id = "1"  # of the input
        self.reset = "latest"
        self.committed: int | None = 0  # None: the group's offsets were deleted
        self.worker: RestoringWorker | None = None
        self.sender = self.hello("q")
        self.cuts: list[Cut] = []
        self.planned: dict[str, Cut] = {}  # by plan
        self.asleep: list[RestoringWorker] = []
        self.asleep_senders: list[int] = []
        self.asleep_tools: list[Iterator[None]] = []
        self.holder: object | None = None  # of the consumer group

    # -- the ledger -----------------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> int:
        offset = self.ledger.end
        self.ledger.apply(offset, record)
        return offset

    def hello(self, app: str, mode: str = "on") -> int:
        topic_id = self.topic_id if "recreated" not in self.broken else ""
        inputs = (InputTopic(topic=INPUT.topic, partitions=1, topic_id=topic_id),) if app == "p" else ()
        return self.append(Hello(n=self.number(), app=app, mode=mode, inputs=inputs))

    # -- life -----------------------------------------------------------------------------------------------------

    def recreate(self) -> None:
        """Recreate the input while its worker is stopped: what comes into it goes to each agent, once."""
        self.counts["recreated"] += 1
        self.log.clear()
        self.begin = 0
        self.worker, self.committed, self.topic_id, self.reset = None, None, "2", "earliest"
        for _ in range(SENT_SINCE):
            self.external()
        worker = self.start()
        assert worker is not None, "no restore is open"
        due = {agent: worker.state[agent] + tuple(it.id for it in self.log) for agent in AGENTS}
        while worker.at < len(self.log):
            self.step_of_worker()
        for agent in AGENTS:
            if worker.state[agent] != due[agent]:
                self.wrong.append(
                    f"agent {agent}: the input was recreated: {worker.state[agent]}, not {due[agent]}"
                )

    def step(self) -> None:
        kind = self.rng.choices(("send", "external", "work", "cut", "commit"), (3, 2, 5, 0.4, 1))[0]
        match kind:
            case "send":
                self.log.append(SimMessage(self.fresh(), self.sender))
            case "external":
                self.external()
            case "work":
                self.step_of_worker()
            case "cut":
                self.take_cut()
            case _:
                self.commit()

    def external(self) -> None:
        self.log.append(SimMessage(self.fresh(), NOBODY))

    def start(self) -> RestoringWorker | None:
        """Start a worker; it waits while its app is restored (None)."""
        if self.ledger.restores.holds("p") is not None and "hold" not in self.broken:
            self.counts["held"] += 1
            return None
        process = self.hello("p")
        state: dict[str, tuple[int, ...]] = dict.fromkeys(AGENTS, ())
        for offset, written in enumerate(self.changelog):
            if not self.void(written.process, CHANGELOG, offset):
                state[written.agent] = written.value
        rules = self.ledger.restores.rules("p", INPUT) if "positions" not in self.broken else {}
        if self.committed is None:  # else what the app says of that
            starts = self.ledger.restores.starts("p") if "expired" not in self.broken else {}
            self.committed = starts.get(INPUT, len(self.log) if self.reset == "latest" else 0)
        if self.committed < self.begin:  # a deleted offset
            self.committed = len(self.log) if self.reset == "latest" else self.begin
        self.worker = RestoringWorker(
            process, state, self.committed, dict(rules), self.ledger.restores.restored("p")
        )
        return self.worker

    def step_of_worker(self) -> None:
        """Hand the next record to the agents that have to process it, or start a worker."""
        worker = self.worker
        if worker is None:
            self.start()
        elif worker.at < len(self.log):
            message = self.log[worker.at]
            if not self.void(message.process, INPUT, worker.at):
                for agent in AGENTS:
                    if worker.rules.get(agent, Rule(0)).takes(worker.at):
                        self.process(worker, agent, message.id)
            worker.at += 1

    def process(self, worker: RestoringWorker, agent: str, message: int) -> None:
        worker.state[agent] = (*worker.state[agent], message)
        self.changelog.append(SimWritten(agent, worker.state[agent], worker.process))

    def commit(self) -> None:
        if self.worker is not None:
            self.committed = max(self.committed or 0, self.worker.at)

    def void(self, process: int, tp: TopicPartition, offset: int) -> bool:
        return "barrier" not in self.broken and process != NOBODY and self.ledger.is_void(process, tp, offset)

    def take_cut(self) -> None:
        """Take a snapshot at one instant: one agent may be ahead of the other by the records that it takes at once."""
        worker = self.worker
        if worker is None:
            return
        positions, skipped = {}, {}
        ahead = self.rng.choice(AGENTS) if worker.at < len(self.log) else ""
        for agent in AGENTS:
            rule = worker.rules.get(agent, Rule(0)).start(worker.at)
            positions[agent], skipped[agent] = rule.offset, rule.started_above
        state = dict(worker.state)
        at = worker.at
        if (
            ahead
            and worker.rules.get(ahead, Rule(0)).takes(at)
            and not self.void(self.log[at].process, INPUT, at)
        ):
            state[ahead] = (*state[ahead], self.log[at].id)
            positions[ahead] = max(positions[ahead], at + 1)
        lowest = min(positions.values())
        in_flight = {
            offset: message.id
            for offset, message in enumerate(self.log)
            if offset >= lowest
            and message.process != NOBODY
            and not self.void(message.process, INPUT, offset)
        }
        self.cuts.append(Cut(positions, skipped, state, in_flight, len(self.log)))
