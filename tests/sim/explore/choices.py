"""The simulator's world without chance: every draw is a choice, and a choice leads to a new world.

It is the same `World` and the same `Process`, driven from outside: `possible()` and `faulty()` list what could happen
next, `after()` returns the world after it, and leaves this one as it is. Only the parts that a choice changes are
copied: the process that acts, or all of them if a group rebalances; logs and history, whose entries are shared.

The parts left out of a state (`key`) cannot matter: counts and the trace; constants of a process (its number, its
app); the content of a fold, which is named by what was read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple, cast

from snapkafka.protocol import Cause, Report, TopicPartition
from snapkafka.protocol.records import Dead
from snapkafka.sim import App, Process, SimBroker, SimStored, World, WorldPlan
from snapkafka.sim.judge import Execution
from snapkafka.sim.world.cluster import Cluster

from .state import Fold, NamedHistory, Names, Shared, copy, key_of_stored

#: Attributes of a process that are no part of its state, or named by others.
NO_STATE: Final = frozenset({"stage", "number", "app", "reply_tp", "key"})


class Choice(NamedTuple):
    """One possible step: its kind, its process (-1: none), its object and its way.

    `how`: the way of a fault, or the shift of a rebalance. `fault`: the fault that it consumes.
    """

    kind: str
    process: int = -1
    what: Any = None
    how: str = ""
    fault: str = ""

    def __str__(self) -> str:
        what = self.what
        if isinstance(what, Cause):
            what = f"{what.agent} {what.tp}@{what.offset}"
        elif isinstance(what, tuple) and not isinstance(what, TopicPartition):
            what = " ".join(str(item) for item in what)
        who = f"p{self.process}" if self.process >= 0 else ""
        return " ".join(filter(None, (who, self.kind, "" if what is None else str(what), self.how)))


class Draws(random.Random):
    """A source of prepared answers in place of random ones."""

    def __init__(self) -> None:
        super().__init__(0)
        self.next = 0

    def randrange(self, *_: Any, **__: Any) -> int:
        return self.next

    def choice(self, seq: Any) -> Any:
        return seq[self.next]

    def random(self) -> float:
        raise AssertionError("nothing is left to chance here")


class Stage(Shared):
    """The common state of all worlds of one search: the current world, names, and the fault of the choice."""

    def __init__(self) -> None:
        self.world: ExploredWorld
        self.names = Names()
        self.draws = Draws()
        self.counts: Counter[str] = Counter()
        self.fault = ""
        self.fold = Fold(history=False)  # nobody has read anything


class ExploredBroker(SimBroker):
    """A broker whose records are shared by many worlds: if one changes, this world gets a copy."""

    def end(self, tp: TopicPartition, offset: int, state: str) -> SimStored:
        log = self.logs[tp]
        log[offset] = replace(log[offset], state=state)
        return log[offset]


class ExploredProcess(Process):
    """A process that can be copied: it finds its world on the stage."""

    ticks_max = 2
    stage: Stage
    key: int | None

    def __init__(self, world: ExploredWorld, number: int, app: App) -> None:
        self.stage, self.key = world.stage, None
        super().__init__(world, number, app)
        self.machine.ledger = world.stage.fold.shared()

    @property
    def world(self) -> ExploredWorld:
        return self.stage.world

    @world.setter
    def world(self, world: Cluster) -> None:
        assert world is self.stage.world

    def copied(self) -> ExploredProcess:
        new = copy(self)
        new.key = None
        return new

    def executions(self) -> Iterator[Execution]:
        """Yield those that it may still change."""
        ways = (self.buffer, *self.outbox.values(), *self.unacked.values(), self.transaction)
        yield from (running.execution for running in (*self.running, *self.finished))
        for sending in (sending for way in ways for sending in way):
            if sending.execution is not None:
                yield sending.execution

    def name(self) -> int:
        """Return the number of the state of this process."""
        if self.key is None:
            names, met = self.stage.names, dict[int, int]()
            state = [names.key(value, met) for name, value in vars(self).items() if name not in NO_STATE]
            self.key = names.number((self.number, *state))
        return self.key

    def _append(self, tp: TopicPartition) -> None:
        step = self.outbox[tp][0].record.step
        if step >= 0:
            self.world.named.own(step)
        super()._append(tp)


class ExploredWorld(World):
    """A world that can produce every next one.

    Args:
        plan: apps, agents, programs, sources of epochs, topics with markers; its chances are not used.
        stage: of the search.
    """

    rng: Draws

    def __init__(self, plan: WorldPlan, stage: Stage) -> None:
        self.stage, stage.world = stage, self
        super().__init__(plan, 0)
        self.rng, self.broker = stage.draws, ExploredBroker()
        self.history = self.named = NamedHistory(stage.names)
        self.fold = Fold(history=True)
        self.faults: dict[str, int] = {}
        self.triggers = 0
        self.shifts: dict[str, int] = {}

    def launch(self, app: str) -> None:
        process = ExploredProcess(self, len(self.processes_ever), self.apps[app])
        self.processes.append(process)
        self.processes_ever.append(process)
        self.unbalanced.add(app)

    # -- nothing by chance -------------------------------------------------------------------------------------

    def chance(self, fault: str) -> bool:
        return fault == self.stage.fault

    def pick(self, n: int, near: int) -> int:
        """Return the partition after that of the event: messages go across."""
        return (near + 1) % n

    def count(self, what: str) -> None:
        self.stage.counts[what] += 1

    def say(self, line: str) -> None:
        pass

    # -- the next world ----------------------------------------------------------------------------------------

    def after(self, choice: Choice) -> ExploredWorld:
        """Return the world after this choice."""
        new = self._copied(None if choice.process < 0 or choice.kind == "expire" else choice.process)
        new.stage.world = new
        new.happen(choice)
        return new

    def _copied(self, only: int | None) -> ExploredWorld:
        """Copy the world, with copies of one process, or of all; the others are shared."""
        new = ExploredWorld.__new__(ExploredWorld)
        new.__dict__.update(self.__dict__)
        new.history = new.named = self.named.copied()
        old = self.broker
        new.broker = ExploredBroker(
            {tp: log.copy() for tp, log in old.logs.items()}, old.committed.copy(), old.ledger.copy()
        )
        new.fold = cast(Fold, self.fold).shared()
        new.generation, new.unbalanced = self.generation.copy(), set(self.unbalanced)
        new.faults, new.shifts = self.faults.copy(), self.shifts.copy()
        new.failed, new.in_queue = self.failed.copy(), self.in_queue.copy()
        new.processes_ever = list(self.processes_ever)
        for process in self.processes:
            if only in (None, process.number):
                own = new.processes_ever[process.number] = cast(ExploredProcess, process).copied()
                new.named.executions |= {execution.number: execution for execution in own.executions()}
        new.processes = [new.processes_ever[process.number] for process in self.processes]
        return new

    def happen(self, choice: Choice) -> None:
        """Let it happen in this world."""
        kind, number, what, how, fault = choice
        if fault:
            self.faults[fault] -= 1
        self.stage.fault, self.stage.draws.next = how, int(how) if how.isdigit() else 0
        process = cast(ExploredProcess, self.processes_ever[number] if number >= 0 else None)
        match kind:
            case "trigger":
                self.triggers -= 1
                if process is not None:  # one of those that might trigger it
                    self.stage.draws.next = [p for p in self.processes if p.joined].index(process)
                self.trigger(f"s{self.triggers}")
            case "rebalance":
                shift, _, self.stage.fault = how.partition(" ")
                self.stage.draws.next = self.shifts[what] = int(shift)
                self.rebalance(what)
            case "restart":
                self.launch(what)
            case "crash" | "stop":
                getattr(self, kind)(process)
            case "expel":
                process.connected, process.key = False, None  # it does not know, and runs on with its inputs
                self.unbalanced.add(process.app.name)
            case "expire":
                process.expire(what)
                if what in process.timers:  # its own report is there
                    process.expire(what)
                dead = {post.dead for post in process.posts if isinstance(post, Dead)}
                for other in self.processes:  # its Kafka session is over, too: its group has no such member
                    assert isinstance(other, ExploredProcess)
                    if other is not process and other.machine.process in dead:
                        other.connected, other.key = False, None
            case "step":
                process.perform(kind, next(r for r in process.running if r.cause == what))
            case _:
                process.perform(kind, what)
        self.stage.fault = ""

    # -- what could happen next --------------------------------------------------------------------------------

    def possible(self) -> Iterator[Choice]:
        """Yield everything that can happen of itself, process by process."""
        self.stage.world = self
        for process in self.processes:
            for kind, what in process.choices():
                yield Choice(kind, process.number, getattr(what, "cause", what))
        for app in sorted(self.unbalanced):
            for shift in range(max(1, sum(p.app.name == app for p in self.processes))):
                yield Choice("rebalance", -1, app, str(shift))

    def finely(self, choice: Choice) -> str:
        """Return the kind of a choice together with its object."""
        process = self.processes_ever[choice.process] if choice.process >= 0 else None
        match choice.kind:
            case "ledger" if process is not None:
                return f"ledger {type(self.broker.ledger[process.read]).__name__}"
            case "post" if process is not None:
                return f"post {type(process.posts[0]).__name__}"
            case "append" | "ack" as kind if process is not None:
                queue = (process.outbox if kind == "append" else process.unacked)[choice.what]
                return f"{kind} {'marker' if queue[0].effect is None else choice.what.topic}"
            case kind:
                return kind

    def faulty(self) -> Iterator[Choice]:
        """Yield the possible faults: of any process, or ("crash a") of the processes of one app."""
        for name, left in self.faults.items():
            if left > 0:
                fault, _, app = name.partition(" ")
                for choice in self._faulty(fault, [p for p in self.processes if app in ("", p.app.name)]):
                    yield choice._replace(fault=name)

    def _faulty(self, fault: str, suffer: list[Process]) -> Iterator[Choice]:
        match fault:
            case "rebalance" | "fence":
                how = "fence" if fault == "fence" else "revoke-uncommitted"
                for app in sorted({p.app.name for p in suffer} - self.unbalanced):
                    for shift in range(sum(p.app.name == app for p in self.processes)):
                        if shift != self.shifts.get(app, 0):
                            yield Choice("rebalance", -1, app, f"{shift} {how}")
            case "restart":
                yield from (Choice("restart", -1, app) for app in self.missing())
            case _:
                for p in suffer:
                    yield from self._happens_to(p, fault)

    def _happens_to(self, p: Process, fault: str) -> Iterator[Choice]:
        match fault:
            case "lose-report":
                if p.posts and isinstance(p.posts[0], Report):
                    yield Choice("post", p.number, None, fault)
            case "fail-send" | "duplicate":
                for tp, queue in p.outbox.items():
                    if queue and queue[0].effect is not None:
                        yield Choice("append", p.number, tp, fault)
            case "expire":
                for epoch in sorted(p.timers & self.fold.open.keys()):
                    yield Choice("expire", p.number, epoch)
            case "disorder":
                for kind, what in p.choices():
                    if kind == "start" and len(p.consumer.queues[cast(Any, what)]) > 1:
                        yield Choice(kind, p.number, what, fault)
            case _:
                able = {"crash": True, "stop": p.may_stop, "expel": p.connected, "abort": p.may_abort()}
                if able[fault]:
                    yield Choice("abort-transaction" if fault == "abort" else fault, p.number)

    # -- sameness ----------------------------------------------------------------------------------------------

    def key(self) -> Hashable:
        """Return a key that is equal for two worlds with the same future and the same past, as far as anything will
        ask."""
        names, broker = self.stage.names, self.broker
        written = sorted((tp, log) for tp, log in broker.logs.items() if log)
        logs = tuple([(tp, tuple([names.once(r, key_of_stored) for r in log])) for tp, log in written])
        ledger = tuple([names.once(record, lambda it: it) for record in broker.ledger])
        return (
            tuple([cast(ExploredProcess, p).name() for p in self.processes]),
            len(self.processes_ever),
            names.number(logs),
            names.number(ledger),
            names.number(self.named.key()),
            tuple(sorted(broker.committed.items())),
            tuple(sorted(self.generation.items())),
            tuple(sorted(self.unbalanced)),
            tuple(self.faults.values()),
            tuple(sorted(self.shifts.items())),
            tuple(sorted(self.failed.items())),
            self.triggers,
            self._numbers,
        )


def settled(world: ExploredWorld) -> None:
    """Prepare a world: every process has joined and has inputs; nothing is in flight."""
    joining = ("post", "ledger", "rebalance")
    while moves := [c for c in world.possible() if c.kind in joining and c.how in ("", "0")]:
        world.happen(moves[0])
