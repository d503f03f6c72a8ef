"""The stage of the golden scenarios: logs and a ledger in memory, and processes that do nothing unless told to.

An `Actor` is a machine and its driver. What the machine asks for is done at once, and told in words, unless the
scenario holds it back (`hold`): then it is done when that is released.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from snapkafka.checks import LogRecord
from snapkafka.drivers import First
from snapkafka.protocol import (
    HEAR_ALL,
    Action,
    AppendHello,
    AppendToLedger,
    AssignedInput,
    Cause,
    ChangelogEnd,
    ChannelEnded,
    CutTimed,
    Effect,
    Event,
    Hello,
    HoldInputs,
    HoldRecord,
    InputsAssigned,
    Joined,
    LedgerRead,
    LedgerRecord,
    LedgerState,
    LetGo,
    LogEnd,
    MarkerFailed,
    MarkerMet,
    MarkerSent,
    Position,
    ReadLedgerTo,
    RecordMet,
    SendMarkers,
    SendOutcome,
    StoppedApp,
    Table,
    TopicPartition,
    Trigger,
    TurnedRed,
    WorkerProtocol,
)
from snapkafka.protocol.ledger_state import ProcessView

from . import words

AGENT = "agent"

#: What a scenario can hold back, and by which actions it is asked for.
HELD: dict[str, type] = {
    "ledger": AppendToLedger,
    "markers": SendMarkers,
}


@dataclass
class Stored:
    """A record in a partition, as the wire would have it; `name` is for the reader of the scenario."""

    name: str
    process: int
    epoch: int
    seq: int
    marker: bool = False
    previous: int = 0


@dataclass
class Sending:
    """A send on its way."""

    effect: Effect
    tp: TopicPartition
    name: str
    seq: int = -1
    offset: int = -1


@dataclass
class Stage:
    """The ledger, the partitions, the actors; `says` takes every line that the reader is to see."""

    says: Callable[[str], None]
    ledger: list[LedgerRecord] = field(default_factory=list)
    logs: defaultdict[TopicPartition, list[Stored]] = field(default_factory=lambda: defaultdict(list))
    fold: LedgerState = field(default_factory=LedgerState)
    actors: dict[str, Actor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # process id -> actor
    ids: dict[int, str] = field(default_factory=dict)  # epoch -> snapshot
    committed: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)  # by the group of an app
    generation: int = 0
    numbers: int = 1000

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def append(self, record: LedgerRecord) -> int:
        """Append to the ledger, and say what."""
        self.ledger.append(record)
        offset = len(self.ledger) - 1
        before = {epoch: view.status for epoch, view in self.fold.snapshots.items()}
        self.fold.apply(offset, record)
        if (epoch := offset + 1) in self.fold.snapshots:
            self.ids[epoch] = words.snapshot_name(self.fold, epoch)
        self.says(f"ledger {offset}: {words.record(record, self)}")
        if isinstance(record, Trigger) and epoch not in self.fold.snapshots:
            self.says("  this is no epoch")
        for epoch, view in self.fold.snapshots.items():
            if epoch in before and view.status is not before[epoch] and not view.open:
                self.says(f"  so {words.status(view, self)}")
        return offset

    def ends(self, tps: Iterable[TopicPartition]) -> tuple[LogEnd, ...]:
        return tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.logs[tp])) for tp in tps)

    def recovered(self, tables: Iterable[Table], partitions: Iterable[int]) -> tuple[ChangelogEnd, ...]:
        """The tables, recovered to the ends of their changelogs."""
        return tuple(
            ChangelogEnd(
                table=table.name,
                topic=table.changelog,
                partition=partition,
                end=len(self.logs[TopicPartition(table.changelog, partition)]),
            )
            for table in tables
            for partition in sorted(set(partitions)) or [0]
        )

    def stopped(self, apps: Sequence[str]) -> tuple[StoppedApp, ...]:
        """What the broker knows of the apps that do not run."""
        return tuple(map(self._stopped, self.fold.stopped(apps)))

    def _stopped(self, view: ProcessView) -> StoppedApp:
        app, inputs = view.hello.app, sorted(tp for _, tp in self.fold.inputs_of([view]))
        positions = tuple(
            Position(agent=AGENT, topic=tp[0], partition=tp[1], offset=self.committed.get((app, tp), 0))
            for tp in inputs
        )
        changelogs = self.recovered(view.hello.tables, (tp.partition for tp in inputs))
        return StoppedApp(app=app, positions=positions, changelogs=changelogs)

    def actor_of(self, process: int) -> str:
        return self.names.get(process, f"process {process}")

    def log_records(self) -> list[LogRecord]:
        return [
            LogRecord(
                tp.topic, tp.partition, offset, stored.process, stored.epoch, stored.seq, marker=stored.marker
            )
            for tp, log in sorted(self.logs.items())
            for offset, stored in enumerate(log)
        ]


class Actor:
    """One process on the stage."""

    def __init__(self, stage: Stage, name: str, hello: Hello, *, hear: frozenset[str] = HEAR_ALL) -> None:
        self.stage, self.name, self.hello = stage, name, hello
        self.machine = WorkerProtocol(hear=hear, aligns=True)
        self.read = 0
        self.held: dict[str, deque[Action]] = {}
        self.sending: list[Sending] = []  # entered, and neither acknowledged nor failed
        stage.actors[name] = self

    # -- the machine and the ledger ---------------------------------------------------------------------------

    def append_hello(self) -> None:
        """Join; the id comes with what is read back."""
        self.hello = replace(self.hello, n=self.stage.number())
        self.feed(Joined(hello=self.hello))
        offset = self.stage.append(self.hello)
        self.stage.names[offset] = self.name

    def feed(self, event: Event) -> First | None:
        actions = self.machine.handle(event)
        self.do(actions)
        return next((action for action in actions if isinstance(action, First)), None)

    def do(self, actions: Sequence[Action]) -> None:
        """Do the actions in their order, or hold them back."""
        for action in actions:
            kind = next((kind for kind, cls in HELD.items() if isinstance(action, cls)), "")
            if kind in self.held:
                self.stage.says(f"{self.name} holds back: {words.action(action, self.stage)}")
                self.held[kind].append(action)
            else:
                self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case AppendToLedger(record=record):
                self.stage.append(record)
            case SendMarkers(epoch=epoch, previous=previous, tps=tps):
                for tp in tps:
                    self._send_marker(tp, epoch, previous)
            case TurnedRed(epoch=epoch):
                self.stage.says(f"{self.name} {words.action(action, self.stage)}")
                self.feed(CutTimed(epoch=epoch, us=1))
            case AppendHello():
                self.stage.says(f"{self.name} {words.action(action, self.stage)}")
                self.append_hello()
            case ReadLedgerTo() | HoldRecord() | HoldInputs() | LetGo():
                self.stage.says(f"{self.name} {words.action(action, self.stage)}")
            case _:
                pass  # timers run out when the scenario says so

    def _send_marker(self, tp: TopicPartition, epoch: int, previous: int) -> None:
        machine, log = self.machine, self.stage.logs[tp]
        assert machine.process is not None
        seq = machine.marker_stamped(tp)
        log.append(Stored("", machine.process, epoch, seq, marker=True, previous=previous))
        self.stage.says(
            f"{tp}@{len(log) - 1}: marker of {self.name} for {words.epochs(previous, epoch, self.stage)}"
        )
        self.feed(MarkerSent(epoch=epoch, tp=tp, offset=len(log) - 1))

    def lose_markers(self, reason: str) -> None:
        """The markers held back cannot be sent."""
        for action in self.held.pop("markers"):
            assert isinstance(action, SendMarkers)
            for tp in action.tps:
                self.feed(MarkerFailed(epoch=action.epoch, tp=tp, reason=reason))

    def release(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            for action in self.held.pop(kind, ()):
                self._do(action)

    def catch_up(self, upto: int | None = None) -> None:
        """Read the ledger to its end, or up to and including `upto`."""
        while self.read < (len(self.stage.ledger) if upto is None else min(upto + 1, len(self.stage.ledger))):
            self.read += 1
            self.feed(LedgerRead(offset=self.read - 1, record=self.stage.ledger[self.read - 1]))

    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(p.topic, p.partition): p.offset for p in self.machine.positions.note()}

    def give(self, positions: dict[TopicPartition, int], *, replay_until: int = 0) -> None:
        """A rebalance gives these inputs, with their tables recovered to the end."""
        self.stage.generation += 1
        given = tuple(
            AssignedInput(tp=tp, agents=(AGENT,), position=at, replay_until=replay_until)
            for tp, at in positions.items()
        )
        changelogs = self.stage.recovered(self.hello.tables, (tp.partition for tp in positions))
        self.feed(InputsAssigned(generation=self.stage.generation, inputs=given, changelogs=changelogs))

    # -- what comes in ----------------------------------------------------------------------------------------

    def meet(self, event: RecordMet | MarkerMet) -> bool:
        """R2: may it be taken in? Read the ledger first where the machine says so. Did that help?"""
        asked = self.feed(event)
        if isinstance(asked, ReadLedgerTo):
            self.catch_up(asked.offset)
            asked = self.feed(event)
        return asked is None

    def come_to(self, tp: TopicPartition, offset: int) -> Stored:
        """The record at this offset is about to be taken in, as every reader of a partition does it."""
        stored = self.stage.logs[tp][offset]
        if stored.marker:
            self.meet(MarkerMet(epoch=stored.epoch))
            self.feed(
                ChannelEnded(
                    tp=tp,
                    offset=offset,
                    sender=stored.process,
                    epoch=stored.epoch,
                    previous=stored.previous,
                )
            )
        elif stored.epoch > self.machine.colours.epoch:
            self.meet(RecordMet(epoch=stored.epoch, may_wait=True))
        return stored

    # -- what goes out ----------------------------------------------------------------------------------------

    def enter(self, tp: TopicPartition, name: str, cause: Cause | None) -> Sending:
        sending = Sending(self.machine.send_entered(cause), tp, name)
        self.sending.append(sending)
        return sending

    def leave(self, sending: Sending) -> None:
        """Stamp and append."""
        machine, log = self.machine, self.stage.logs[sending.tp]
        assert machine.process is not None
        sending.seq, sending.offset = machine.send_stamped(sending.effect, sending.tp), len(log)
        log.append(Stored(sending.name, machine.process, sending.effect.epoch, sending.seq))
        self.do(machine.send_appended(sending.effect))

    def ack(self, sending: Sending) -> None:
        self.sending.remove(sending)
        self.do(
            self.machine.settled(
                sending.effect, sending.tp, sending.seq, SendOutcome.ACKED, offset=sending.offset
            )
        )

    def fail(self, sending: Sending, reason: str) -> None:
        self.sending.remove(sending)
        self.do(
            self.machine.settled(sending.effect, sending.tp, sending.seq, SendOutcome.REFUSED, reason=reason)
        )
