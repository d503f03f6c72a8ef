"""A world of a few processes in memory: drives `WorkerProtocol` as a driver does, one step at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from snapkafka.protocol import (
    HEAR_ALL,
    NOBODY,
    Action,
    AppendToLedger,
    AssignedInput,
    Cause,
    ChangelogEnd,
    Effect,
    Event,
    Failure,
    Hello,
    InputsAssigned,
    InputTopic,
    Joined,
    LedgerRead,
    LedgerRecord,
    LedgerState,
    LogEnd,
    MarkerSettled,
    Position,
    Report,
    SendMarkers,
    SendOutcome,
    SnapshotView,
    StoppedApp,
    Table,
    TimerExpired,
    TopicPartition,
    Trigger,
    TurnedRed,
    WorkerProtocol,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@dataclass
class Stored:
    """A record in a partition, as the wire would have it."""

    process: int
    epoch: int
    seq: int
    marker: bool = False
    previous: int = 0
    name: str = ""  # for the reader of a scenario


@dataclass
class Sending:
    """A send: entered, or on its way."""

    effect: Effect
    tp: TopicPartition
    name: str
    seq: int = -1
    offset: int = -1


@dataclass
class World:
    """The ledger and the partitions."""

    ledger: list[LedgerRecord] = field(default_factory=list)
    logs: dict[TopicPartition, list[Stored]] = field(default_factory=dict)
    fold: LedgerState = field(default_factory=LedgerState)
    numbers: int = 1_000_000

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def append(self, record: LedgerRecord) -> int:
        self.ledger.append(record)
        self.fold.apply(len(self.ledger) - 1, record)
        return len(self.ledger) - 1

    def trigger(self, name: str = "s", **options: object) -> int:
        """Append a trigger; the epoch."""
        options.setdefault("marker_topics", ("a", "b"))
        options.setdefault("asked_at", len(self.ledger))
        options.setdefault("ends", self.ends())
        options.setdefault("stopped", self.stopped())
        return self.append(Trigger(n=self.number(), id=name, **options)) + 1  # type: ignore[arg-type]

    def take(self, *processes: Process, name: str = "s", **options: object) -> int:
        """Append a trigger, and let everybody read the ledger until nothing moves; the epoch."""
        epoch = self.trigger(name, **options)
        settle(*processes)
        return epoch

    def ends(self, tps: Iterable[TopicPartition] | None = None) -> tuple[LogEnd, ...]:
        """The ends of all inputs, or of these partitions."""
        if tps is None:
            tps = {tp for _, tp in self.fold.inputs_of(self.fold.standing())}
        return tuple(
            LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.log(tp))) for tp in sorted(tps)
        )

    def stopped(
        self, committed: dict[TopicPartition, int] | None = None, apps: Sequence[str] = ()
    ) -> tuple[StoppedApp, ...]:
        """The apps that do not run, at their beginnings or at what they have committed."""
        return tuple(
            StoppedApp(
                app=view.hello.app,
                positions=tuple(
                    Position(
                        agent="*", topic=tp.topic, partition=tp.partition, offset=(committed or {}).get(tp, 0)
                    )
                    for _, tp in sorted(self.fold.inputs_of([view]))
                ),
                changelogs=tuple(
                    ChangelogEnd(table=name, topic=tp.topic, partition=tp.partition, end=len(self.log(tp)))
                    for name, tp in self.fold.changelogs_of(view)
                ),
            )
            for view in self.fold.stopped(apps)
        )

    def snapshot(self, epoch: int) -> SnapshotView:
        return self.fold.snapshots[epoch]

    def failure(self, epoch: int) -> Failure:
        found = self.snapshot(epoch).failure
        assert found is not None
        return found

    def log(self, tp: TopicPartition) -> list[Stored]:
        return self.logs.setdefault(tp, [])


class Process:
    """One machine and its driver; nothing happens by itself: `hear`, `flush` and `ack` are steps of the test."""

    def __init__(
        self,
        world: World,
        app: str,
        inputs: tuple[TopicPartition, ...] = (),
        *,
        hear: frozenset[str] = HEAR_ALL,
        assign: bool = True,
        join: bool = True,
        asks_state: bool = False,
    ) -> None:
        self.world, self.app, self.inputs = world, app, inputs
        self.machine = WorkerProtocol(hear=hear, asks_state=asks_state)
        self.read = 0
        self.asked: list[Action] = []
        self.unacked: list[Sending] = []
        self.turned: list[TurnedRed] = []
        self.hold_markers = False  # they are sent, and not acknowledged
        if join:
            self.join()
        if inputs and assign:
            self.give(*inputs)

    def join(self, was: int = NOBODY) -> None:
        hello = Hello(
            was=was,
            n=self.world.number(),
            app=self.app,
            host="host",
            inputs=tuple(InputTopic(topic=tp.topic, partitions=1) for tp in self.inputs),
            tables=(Table(name="t", changelog=f"{self.app}-t-changelog", partitions=1),),
        )
        self.join_as(hello)

    def join_as(self, hello: Hello) -> None:
        self.feed(Joined(hello=hello))
        self.world.append(hello)
        self.catch_up()

    @property
    def id(self) -> int:
        assert self.machine.process is not None
        return self.machine.process

    @property
    def epoch(self) -> int:
        return self.machine.colours.epoch

    def give(
        self,
        *inputs: TopicPartition,
        positions: dict[TopicPartition, int] | None = None,
        generation: int = 1,
        recovered: int = 0,
        replay_until: int = 0,
        agents: tuple[str, ...] = ("agent",),
    ) -> None:
        """A rebalance gives these inputs."""
        given = tuple(
            AssignedInput(
                tp=tp, agents=agents, position=(positions or {}).get(tp, 0), replay_until=replay_until
            )
            for tp in inputs
        )
        changelog = ChangelogEnd(table="t", topic=f"{self.app}-t-changelog", partition=0, end=recovered)
        self.feed(InputsAssigned(generation=generation, inputs=given, changelogs=(changelog,)))
        self.catch_up()

    def feed(self, event: Event) -> list[Action]:
        actions = self.machine.handle(event)
        self.do(actions)
        return actions

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.act(action)

    def act(self, action: Action) -> None:
        match action:
            case AppendToLedger(record=record):
                self.asked.append(action)
                self.world.append(record)
            case SendMarkers():
                self.asked.append(action)
                for tp in action.tps:
                    offset = self.send_marker(action, tp)
                    if not self.hold_markers:
                        self.feed(MarkerSettled(epoch=action.epoch, tp=tp, offset=offset))
            case TurnedRed():
                self.turned.append(action)
            case _:
                self.asked.append(action)

    def send_marker(self, action: SendMarkers, tp: TopicPartition) -> int:
        """Append a marker; its offset."""
        log, seq = self.world.log(tp), self.machine.colours.stamp(tp)
        log.append(Stored(self.id, action.epoch, seq, marker=True, previous=action.previous))
        return len(log) - 1

    def catch_up(self, upto: int | None = None) -> None:
        """Read the ledger, to its end or to `upto`."""
        while self.read < min(len(self.world.ledger), len(self.world.ledger) if upto is None else upto):
            self.read += 1
            self.feed(LedgerRead(offset=self.read - 1, record=self.world.ledger[self.read - 1]))

    def start(self, tp: TopicPartition, offset: int) -> Cause:
        event = Cause("agent", tp, offset)
        self.do(self.machine.event_started(event))
        return event

    def end(self, event: Cause) -> None:
        self.do(self.machine.event_ended(event))

    def send(self, tp: TopicPartition, event: Cause | None = None, *, ack: bool = True) -> Stored:
        """A send enters, is stamped and appended; acknowledged now or by `ack`."""
        stored = self.leave(self.enter(tp, event))
        if ack:
            self.ack()
        return stored

    def enter(self, tp: TopicPartition, event: Cause | None, name: str = "") -> Sending:
        return Sending(self.machine.send_entered(event), tp, name)

    def leave(self, sending: Sending) -> Stored:
        """Stamp and append."""
        log = self.world.log(sending.tp)
        sending.seq, sending.offset = self.machine.send_stamped(sending.effect, sending.tp), len(log)
        log.append(Stored(self.id, sending.effect.epoch, sending.seq, name=sending.name))
        self.unacked.append(sending)
        self.do(self.machine.send_appended(sending.effect))
        return log[-1]

    def ack(self) -> None:
        while self.unacked:
            self.settle(SendOutcome.ACKED)

    def settle(self, outcome: SendOutcome, sending: Sending | None = None, *, reason: str = "") -> Sending:
        """Settle a send that is on its way, or the oldest one."""
        sending = sending or self.unacked[0]
        self.unacked.remove(sending)
        at = sending.offset if outcome is SendOutcome.ACKED else -1
        settled = self.machine.settled
        self.do(settled(sending.effect, sending.tp, sending.seq, outcome, offset=at, reason=reason))
        return sending


def settle(*processes: Process) -> None:
    """Everybody reads the ledger until nothing moves."""
    before = -1
    while before != len(processes[0].world.ledger):
        before = len(processes[0].world.ledger)
        for process in processes:
            process.catch_up()


def records(process: Process, kind: type) -> list[Any]:
    return [r for r in process.world.ledger if isinstance(r, kind) and r.process == process.id]


def cuts(process: Process) -> list[Report]:
    """Its reports."""
    return records(process, Report)


def expire(process: Process, epoch: int) -> list[Action]:
    """The time to live is over, and the while after it."""
    return [*process.feed(TimerExpired(epoch=epoch)), *process.feed(TimerExpired(epoch=epoch))]
