"""The stage of the golden scenarios: logs and a ledger in memory, and processes that do nothing unless told to.

What the machine of an `Actor` asks for is done at once, and told in words, unless the scenario holds it back (`hold`):
then it is done when that is released.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from snapkafka.checks import LogRecord
from snapkafka.protocol import (
    HEAR_ALL,
    Action,
    AppendHello,
    AssignedInput,
    ChangelogEnd,
    ChannelEnded,
    Hello,
    Hold,
    InputsAssigned,
    Joined,
    LedgerRecord,
    LetGo,
    MarkerMet,
    ReadLedgerTo,
    RecordMet,
    SendMarkers,
    Table,
    TopicPartition,
    Trigger,
    TurnedRed,
)
from tests.protocol.world import Process, Stored, World

from . import words

AGENT = "agent"

#: What a scenario can hold back.
HELD = ("ledger", "markers")


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


class Actor(Process):
    """One process on the stage."""

    def __init__(self, stage: Stage, name: str, hello: Hello, *, hear: frozenset[str] = HEAR_ALL) -> None:
        super().__init__(stage, hello.app, hear=hear, join=False)
        self.stage, self.name, self.hello = stage, name, hello
        self.held: dict[str, list[Action]] = {}
        stage.actors[name] = self

    # -- what it is asked for -------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Say so where nothing else shows it; hold it back where the scenario does."""
        if isinstance(action, (TurnedRed, AppendHello, ReadLedgerTo, Hold, LetGo)):
            self.stage.says(f"{self.name} {words.action(action, self.stage)}")
        kind = {"AppendToLedger": "ledger", "SendMarkers": "markers"}.get(type(action).__name__, "")
        if kind in self.held:
            self.stage.says(f"{self.name} holds back: {words.action(action, self.stage)}")
            self.held[kind].append(action)
            return
        super().act(action)
        if isinstance(action, AppendHello):
            self.append_hello()

    def send_marker(self, action: SendMarkers, tp: TopicPartition) -> int:
        offset = super().send_marker(action, tp)
        which = words.epochs(action.previous, action.epoch, self.stage)
        self.stage.says(f"{tp}@{offset}: marker of {self.name} for {which}")
        return offset

    def append_hello(self) -> None:
        """Join; the id comes with what is read back."""
        self.hello = replace(self.hello, n=self.stage.number())
        self.feed(Joined(hello=self.hello))
        self.stage.append(self.hello)

    def release(self, kinds: Sequence[str]) -> None:
        for kind in kinds:
            self.do(self.held.pop(kind, ()))

    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(p.topic, p.partition): p.offset for p in self.machine.positions.note()}

    def assign(self, positions: dict[TopicPartition, int], *, replay_until: int = 0) -> None:
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
        for asked in self.feed(event):
            if isinstance(asked, ReadLedgerTo):
                self.catch_up(asked.offset + 1)
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
