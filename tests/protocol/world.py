"""A world of a few processes in memory: drives `WorkerProtocol` as a driver does, one step at a time.

What a machine asks for is done at once, unless the test holds it back; a golden scenario is told of it in `words`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from snapkafka.checks import LogRecord
from snapkafka.protocol import (
    Cause,
    ChangelogEnd,
    ChannelEnded,
    Effect,
    Event,
    Hello,
    InputTopic,
    LedgerState,
    LogEnd,
    MarkerMet,
    MarkerSettled,
    RecordMet,
    SendMarkers,
    SendOutcome,
    SnapshotView,
    Table,
    TopicPartition,
)
from snapkafka.protocol.actions import (
    Action,
    AppendHello,
    AppendToLedger,
    Hold,
    LetGo,
    ReadLedgerTo,
    TurnedRed,
)
from snapkafka.protocol.events import AssignedInput, InputsAssigned, Joined, LedgerRead
from snapkafka.protocol.offsets import NOBODY, Position, StoppedApp
from snapkafka.protocol.records import LedgerRecord, Trigger
from snapkafka.protocol.snapshots import Failure
from snapkafka.protocol.worker import HEAR_ALL, WorkerProtocol
from tests.scenarios import words

#: The agent of every app.
AGENT = "agent"
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
    """The ledger and the partitions. `says` takes every line that the reader of a scenario is to see."""

    ledger: list[LedgerRecord] = field(default_factory=list)
    logs: defaultdict[TopicPartition, list[Stored]] = field(default_factory=lambda: defaultdict(list))
    fold: LedgerState = field(default_factory=LedgerState)
    number: Callable[[], int] = field(default_factory=lambda: count(1_000_001).__next__)
    generation: int = 0
    says: Callable[[str], None] | None = None
    names: dict[int, str] = field(default_factory=dict)  # process id -> its host
    ids: dict[int, str] = field(default_factory=dict)  # epoch -> snapshot

    def append(self, record: LedgerRecord) -> int:
        """Append to the ledger; its offset."""
        before = {epoch: view.status for epoch, view in self.fold.snapshots.items()}
        offset = len(self.ledger)
        self.ledger.append(record)
        self.fold.apply(offset, record)
        if isinstance(record, Hello):
            self.names[offset] = record.host
        if offset + 1 in self.fold.snapshots:
            self.ids[offset + 1] = words.snapshot_name(self.fold, offset + 1)
        if self.says is not None:
            self.says(f"ledger {offset}: {words.record(record, self)}")
            if isinstance(record, Trigger) and offset + 1 not in self.fold.snapshots:
                self.says("  this is no epoch")
            for epoch, view in self.fold.snapshots.items():
                if epoch in before and view.status is not before[epoch] and not view.open:
                    self.says(f"  so {words.status(view, self)}")
        return offset

    def tell(self, line: str) -> None:
        if self.says is not None:
            self.says(line)

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

    def ends(self) -> tuple[LogEnd, ...]:
        """The ends of all inputs."""
        tps = {tp for _, tp in self.fold.inputs_of(self.fold.standing())}
        return log_ends(*((tp, len(self.logs[tp])) for tp in sorted(tps)))

    def stopped(self, committed: dict[TopicPartition, int] | None = None) -> tuple[StoppedApp, ...]:
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
                    ChangelogEnd(table=name, topic=tp.topic, partition=tp.partition, end=len(self.logs[tp]))
                    for name, tp in self.fold.changelogs_of(view)
                ),
            )
            for view in self.fold.stopped()
        )

    def snapshot(self, epoch: int) -> SnapshotView:
        return self.fold.snapshots[epoch]

    def failure(self, epoch: int) -> Failure:
        found = self.snapshot(epoch).failure
        assert found is not None
        return found

    def log_records(self) -> list[LogRecord]:
        return [
            LogRecord(tp.topic, tp.partition, offset, it.process, it.epoch, it.seq, marker=it.marker)
            for tp, log in sorted(self.logs.items())
            for offset, it in enumerate(log)
        ]

    def actor_of(self, process: int) -> str:
        return self.names.get(process, f"process {process}")


class Process:
    """One machine and its driver; nothing happens by itself: `catch_up` and `ack` are steps of the test.

    Args:
        app, inputs: of a process with one table; or its `hello` says that.
        assign: it joins with its inputs. `join`: it joins.
        held: the kinds of actions that are kept until they are released ("ledger", "markers").
    """

    def __init__(
        self,
        world: World,
        app: str = "",
        inputs: tuple[TopicPartition, ...] = (),
        *,
        hello: Hello | None = None,
        hear: frozenset[str] = HEAR_ALL,
        assign: bool = True,
        join: bool = True,
        asks_state: bool = False,
    ) -> None:
        self.world = world
        self.hello = hello or Hello(
            n=0,
            app=app,
            host="host",
            inputs=tuple(InputTopic(topic=tp.topic, partitions=1) for tp in inputs),
            tables=(Table(name="t", changelog=f"{app}-t-changelog", partitions=1),),
        )
        self.name, self.rejoins = self.hello.host, hello is not None
        self.machine = WorkerProtocol(hear=hear, asks_state=asks_state)
        self.read = 0
        self.asked: list[Action] = []
        self.held: dict[str, list[Action]] = {}
        self.unacked: list[Sending] = []
        if join:
            self.join()
        if inputs and assign:
            self.give(*inputs)

    def join(self, was: int = NOBODY) -> None:
        """Join, and read that."""
        self.append_hello(was)
        self.catch_up()

    def append_hello(self, was: int = NOBODY) -> None:
        """Join; the id comes with what is read back."""
        self.hello = replace(self.hello, n=self.world.number(), was=was)
        self.feed(Joined(hello=self.hello))
        self.world.append(self.hello)

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
        generation: int = 0,
        recovered: int | None = None,
        replay_until: int = 0,
        agents: tuple[str, ...] = (AGENT,),
        read: bool = True,
    ) -> None:
        """A rebalance gives these inputs, with their tables recovered to the end, or to `recovered`."""
        self.world.generation += 1
        starts = positions or {}
        given = tuple(
            AssignedInput(tp=tp, agents=agents, position=starts.get(tp, 0), replay_until=replay_until)
            for tp in inputs
        )
        places = sorted({tp.partition for tp in inputs}) or [0]
        logs = ((table, TopicPartition(table.changelog, p)) for table in self.hello.tables for p in places)
        changelogs = tuple(
            ChangelogEnd(
                table=table.name,
                topic=tp.topic,
                partition=tp.partition,
                end=len(self.world.logs[tp]) if recovered is None else recovered,
            )
            for table, tp in logs
        )
        generation = generation or self.world.generation
        self.feed(InputsAssigned(generation=generation, inputs=given, changelogs=changelogs))
        if read:
            self.catch_up()

    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(p.topic, p.partition): p.offset for p in self.machine.positions.note()}

    def feed(self, event: Event) -> list[Action]:
        actions = self.machine.handle(event)
        self.do(actions)
        return actions

    def do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self.act(action)

    def act(self, action: Action) -> None:
        """Do it, and say so where nothing else shows it; or hold it back."""
        told = isinstance(action, (TurnedRed, AppendHello, ReadLedgerTo, Hold, LetGo))
        kind = {"AppendToLedger": "ledger", "SendMarkers": "markers"}.get(type(action).__name__, "")
        if self.world.says is not None and (told or kind in self.held):
            how = "" if told else "holds back: "
            self.world.says(f"{self.name} {how}{words.action(action, self.world)}")
        if kind in self.held:
            self.held[kind].append(action)
            return
        self.asked.append(action)
        match action:
            case AppendToLedger(record=record):
                self.world.append(record)
            case SendMarkers():
                for tp in action.tps:
                    self.send_marker(action, tp)
            case AppendHello() if self.rejoins:
                self.append_hello()

    def release(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.do(self.held.pop(kind, ()))

    def send_marker(self, action: SendMarkers, tp: TopicPartition) -> None:
        log, seq = self.world.logs[tp], self.machine.colours.stamp(tp)
        log.append(Stored(self.id, action.epoch, seq, marker=True, previous=action.previous))
        which = words.epochs(action.previous, action.epoch, self.world)
        self.world.tell(f"{tp}@{len(log) - 1}: marker of {self.name} for {which}")
        self.feed(MarkerSettled(epoch=action.epoch, tp=tp, offset=len(log) - 1))

    # -- what comes in ----------------------------------------------------------------------------------------

    def meet(self, event: RecordMet | MarkerMet) -> None:
        """R2: may it be taken in? Read the ledger first where the machine says so."""
        for asked in self.feed(event):
            if isinstance(asked, ReadLedgerTo):
                self.catch_up(asked.offset + 1)
                self.feed(event)

    def come_to(self, tp: TopicPartition, offset: int) -> Stored:
        """The record at this offset is about to be taken in, as every reader of a partition does it."""
        stored = self.world.logs[tp][offset]
        sender, epoch, previous = stored.process, stored.epoch, stored.previous
        if stored.marker:
            self.meet(MarkerMet(epoch=epoch))
            self.feed(ChannelEnded(tp=tp, offset=offset, sender=sender, epoch=epoch, previous=previous))
        elif epoch > self.machine.colours.epoch:
            self.meet(RecordMet(epoch=epoch, may_wait=True))
        return stored

    def catch_up(self, upto: int | None = None) -> None:
        """Read the ledger, to its end or to `upto`."""
        while self.read < len(self.world.ledger) and (upto is None or self.read < upto):
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
        log = self.world.logs[sending.tp]
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


def fold_of(*records: object, history: bool = True) -> LedgerState:
    """The fold of a ledger of these records."""
    fold = LedgerState(history=history)
    for record in records:
        fold.apply(fold.end, record)  # type: ignore[arg-type]
    return fold


def log_ends(*places: tuple[TopicPartition, int]) -> tuple[LogEnd, ...]:
    return tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in places)


def settle(*processes: Process) -> None:
    """Everybody reads the ledger until nothing moves."""
    before = -1
    while before != len(processes[0].world.ledger):
        before = len(processes[0].world.ledger)
        for process in processes:
            process.catch_up()


def records(process: Process, kind: type) -> list[Any]:
    return [r for r in process.world.ledger if isinstance(r, kind) and r.process == process.id]
