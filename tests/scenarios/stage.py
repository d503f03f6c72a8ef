"""The stage of the golden scenarios: logs and a ledger in memory, and processes that do nothing unless told to.

An `Actor` is a machine and the loop of every driver. What the machine asks for is done at once, and told in words,
unless the scenario holds it back (`hold`): then it is done when that is released.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from snapkafka.checks import LogRecord
from snapkafka.drivers import MachineDriver
from snapkafka.protocol import (
    HEAR_ALL,
    Action,
    AppendHello,
    AppendToLedger,
    AssignedInput,
    Cause,
    ChangelogEnd,
    ChannelEnded,
    Effect,
    Hello,
    Hold,
    InputsAssigned,
    Joined,
    LedgerRead,
    LedgerRecord,
    LetGo,
    MarkerMet,
    MarkerSettled,
    ReadLedgerTo,
    RecordMet,
    SendMarkers,
    SendOutcome,
    StartTimer,
    Table,
    TopicPartition,
    Trigger,
    TurnedRed,
    WorkerProtocol,
)
from tests.protocol.world import Stored, World

from . import words

AGENT = "agent"

#: What a scenario can hold back.
HELD = ("ledger", "markers")


@dataclass
class Sending:
    """A send on its way."""

    effect: Effect
    tp: TopicPartition
    name: str
    seq: int = -1
    offset: int = -1


@dataclass
class Stage(World):
    """The ledger, the partitions, the actors; `says` takes every line that the reader is to see."""

    logs: defaultdict[TopicPartition, list[Stored]] = field(default_factory=lambda: defaultdict(list))
    says: Callable[[str], None] = print
    actors: dict[str, Actor] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # process id -> actor
    ids: dict[int, str] = field(default_factory=dict)  # epoch -> snapshot
    committed: dict[TopicPartition, int] = field(default_factory=dict)  # by the groups of their readers
    generation: int = 0

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    def append(self, record: LedgerRecord) -> int:
        """Append to the ledger, and say what."""
        before = {epoch: view.status for epoch, view in self.fold.snapshots.items()}
        offset = super().append(record)
        epoch = offset + 1
        if epoch in self.fold.snapshots:
            self.ids[epoch] = words.snapshot_name(self.fold, epoch)
        if isinstance(record, Hello):
            self.names[offset] = record.host
        self.says(f"ledger {offset}: {words.record(record, self)}")
        if isinstance(record, Trigger) and epoch not in self.fold.snapshots:
            self.says("  this is no epoch")
        for epoch, view in self.fold.snapshots.items():
            if epoch in before and view.status is not before[epoch] and not view.open:
                self.says(f"  so {words.status(view, self)}")
        return offset

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

    def actor_of(self, process: int) -> str:
        return self.names.get(process, f"process {process}")

    def log_records(self) -> list[LogRecord]:
        return [
            LogRecord(tp.topic, tp.partition, offset, it.process, it.epoch, it.seq, marker=it.marker)
            for tp, log in sorted(self.logs.items())
            for offset, it in enumerate(log)
        ]


class Actor(MachineDriver):
    """One process on the stage."""

    clock_ns = staticmethod(lambda: 0)

    def __init__(self, stage: Stage, name: str, hello: Hello, *, hear: frozenset[str] = HEAR_ALL) -> None:
        super().__init__(WorkerProtocol(hear=hear, aligns=True))
        self.stage, self.name, self.hello = stage, name, hello
        self.read = 0
        self.held: dict[str, deque[Action]] = {}
        self.sending: list[Sending] = []  # entered, and neither acknowledged nor failed
        stage.actors[name] = self

    # -- the hooks of the loop, and the ledger ------------------------------------------------------------------

    def do(self, actions: Sequence[Action], *, us: int = 1) -> ReadLedgerTo | Hold | None:
        """Do the actions in their order, and say so where nothing else shows it."""
        for action in actions:
            if isinstance(action, (TurnedRed, AppendHello, ReadLedgerTo, Hold, LetGo)):
                self.stage.says(f"{self.name} {words.action(action, self.stage)}")
            asked = super().do([action], us=us)
            if asked is not None:
                return asked
        return None

    def _holds(self, kind: str, action: Action) -> bool:
        if kind in self.held:
            self.stage.says(f"{self.name} holds back: {words.action(action, self.stage)}")
            self.held[kind].append(action)
        return kind in self.held

    def append(self, record: LedgerRecord) -> None:
        if not self._holds("ledger", AppendToLedger(record=record)):
            self.stage.append(record)

    def send_markers(self, action: SendMarkers) -> None:
        if self._holds("markers", action):
            return
        machine, epoch, previous = self.machine, action.epoch, action.previous
        for tp in action.tps:
            log = self.stage.logs[tp]
            log.append(Stored(self._id, epoch, machine.colours.stamp(tp), marker=True, previous=previous))
            which = words.epochs(previous, epoch, self.stage)
            self.stage.says(f"{tp}@{len(log) - 1}: marker of {self.name} for {which}")
            self.feed(MarkerSettled(epoch=epoch, tp=tp, offset=len(log) - 1))

    def start_timer(self, action: StartTimer) -> None:
        """It runs out when the scenario says so."""

    def hold_inputs(self) -> None:
        """The scenario starts nothing."""

    def let_go(self) -> None:
        """Nothing waits."""

    def append_hello(self, was: int = -1) -> None:
        """Join; the id comes with what is read back."""
        self.hello = replace(self.hello, n=self.stage.number())
        self.feed(Joined(hello=self.hello))
        self.stage.append(self.hello)

    @property
    def _id(self) -> int:
        assert self.machine.process is not None
        return self.machine.process

    def lose_markers(self, reason: str) -> None:
        """The markers held back cannot be sent."""
        for action in self.held.pop("markers"):
            assert isinstance(action, SendMarkers)
            for tp in action.tps:
                self.feed(MarkerSettled(epoch=action.epoch, tp=tp, failure=reason))

    def release(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.do([*self.held.pop(kind, ())])

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

    def meet(self, event: RecordMet | MarkerMet) -> None:
        """R2: may it be taken in? Read the ledger first where the machine says so."""
        asked = self.feed(event)
        if isinstance(asked, ReadLedgerTo):
            self.catch_up(asked.offset)
            self.feed(event)

    def come_to(self, tp: TopicPartition, offset: int) -> Stored:
        """The record at this offset is about to be taken in, as every reader of a partition does it."""
        stored = self.stage.logs[tp][offset]
        sender, epoch, previous = stored.process, stored.epoch, stored.previous
        if stored.marker:
            self.meet(MarkerMet(epoch=epoch))
            self.feed(ChannelEnded(tp=tp, offset=offset, sender=sender, epoch=epoch, previous=previous))
        elif epoch > self.machine.colours.epoch:
            self.meet(RecordMet(epoch=epoch, may_wait=True))
        return stored

    # -- what goes out ----------------------------------------------------------------------------------------

    def enter(self, tp: TopicPartition, name: str, cause: Cause | None) -> Sending:
        sending = Sending(self.machine.send_entered(cause), tp, name)
        self.sending.append(sending)
        return sending

    def leave(self, sending: Sending) -> None:
        """Stamp and append."""
        log = self.stage.logs[sending.tp]
        sending.seq, sending.offset = self.machine.send_stamped(sending.effect, sending.tp), len(log)
        log.append(Stored(self._id, sending.effect.epoch, sending.seq, name=sending.name))
        self.do(self.machine.send_appended(sending.effect))

    def ack(self, sending: Sending) -> None:
        self._settled(sending, SendOutcome.ACKED, offset=sending.offset)

    def fail(self, sending: Sending, reason: str) -> None:
        self._settled(sending, SendOutcome.REFUSED, reason=reason)

    def _settled(self, sending: Sending, how: SendOutcome, *, offset: int = -1, reason: str = "") -> None:
        self.sending.remove(sending)
        settled = self.machine.settled
        self.do(settled(sending.effect, sending.tp, sending.seq, how, offset=offset, reason=reason))
