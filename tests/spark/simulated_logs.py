"""What runs of the simulator leave: consistent snapshots with all that happens to honest systems, and broken ones.

Retries, failed sends, transactions, rebalances, replays, torn events, processes that left and zombies are the
simulator's. Each snapshot comes as one of the small worlds of `small_logs`, with topics, processes and epochs of its
own, so that many are looked at in one go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from snapkafka.checks import LogBounds, LogRecord, Verdict
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.sim import World as Simulated
from snapkafka.sim import make_plan, played
from snapkafka.sim.runs import judge
from tests.sim.mutants.table import MUTANTS

from .small_logs import EPOCH, World

#: Between the processes of one world and those of the next; no ledger of a run is as long.
APART = 10_000
#: What a captured snapshot is made of.
PARTS = ("processes", "inputs", "senders", "changelogs", "recorded")
#: Mutants whose seed has a snapshot that its log gives away, each in a way of its own.
BROKEN: Final = (
    *("R7 event", "R7 transaction", "R7 failed"),
    *("R8 start", "R8 late start", "R2 agent", "R9 moved"),
)
#: Seeds of mutants whose pinned one gives no snapshot that the checks call inconsistent.
ACCUSED: Final = {"R7 event": 8, "R7 failed": 2, "R8 late start": 0, "R9 moved": 3}
_NAMES = {"topic", "changelog", "app"}
_PROCESSES = {"process", "receiver", "sender", "formerly"}
_EPOCHS = {"was", "met"}


def consistent(seed: int, n: int) -> Iterator[World]:
    """The snapshots of one seed that are consistent by causality, and no verdict doubts, numbered from `n` on."""
    world, _ = played(seed)
    for epoch in world.fold.snapshots:
        wrong, verdict = judge(world, epoch)
        if not wrong and verdict is not None and verdict.good:
            yield _whole(world, world.fold.captured(epoch), n)
            n += 1


def broken(name: str, n: int) -> World:
    """A snapshot of a mutant that is not consistent, and is known not to be by its log."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    seed = ACCUSED.get(name, mutant.seed or 0)
    with mutant.patch():
        world, _ = played(seed, mutant.plan(replace(make_plan(seed), retries=0)))
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if wrong and verdict is Verdict.INCONSISTENT:
                return _whole(world, world.fold.captured(epoch), n)
    raise AssertionError(f"{name} has no snapshot that is known to be inconsistent: give it another seed")


def _whole(simulated: Simulated, captured: Captured, n: int) -> World:
    """A snapshot, and what it reads of the logs of its run."""
    names, broker = Names(captured.epoch, n), simulated.broker
    here = names.captured(captured)
    cuts: list[Any] = [*here.inputs, *here.changelogs]
    read = {TopicPartition(cut.topic, cut.partition) for cut in cuts}
    return World(
        records=[record for record in map(names.record, broker.records()) if record.tp in read],
        bounds={
            names.tp(tp): LogBounds(start=0, end=len(log))
            for tp, log in broker.logs.items()
            if names.tp(tp) in read
        },
        **{part: list(getattr(here, part)) for part in PARTS},
    )


class Names:
    """Names and numbers of a world that no other has. Who was born before the snapshot's epoch still was."""

    def __init__(self, epoch: int, n: int) -> None:
        self._epoch, self._n = epoch, n

    def process(self, process: int) -> int:
        if process < 0:
            return process
        assert process < APART
        born = 0 if process < self._epoch else EPOCH - self._epoch
        return born + self._n * APART + process

    def epoch(self, epoch: int) -> int:
        return EPOCH + epoch - self._epoch if epoch > 0 else 0

    def name(self, name: str) -> str:
        return f"{self._n}-{name}"

    def tp(self, tp: TopicPartition) -> TopicPartition:
        return TopicPartition(self.name(tp.topic), tp.partition)

    def record(self, record: LogRecord) -> LogRecord:
        return record._replace(
            topic=self.name(record.topic),
            process=self.process(record.process),
            epoch=self.epoch(record.epoch),
            cause=(self.tp(record.cause[0]), record.cause[1]) if record.cause is not None else None,
        )

    def captured(self, captured: Captured) -> Captured:
        """A captured snapshot; all are of one epoch then."""
        parts = {part: self.given("", getattr(captured, part)) for part in PARTS}
        return replace(captured, epoch=EPOCH, **parts)

    def given(self, field: str, value: Any) -> Any:
        """A part of a captured snapshot: the value of a field of that name, and all that is in it."""
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value,
                **{item.name: self.given(item.name, getattr(value, item.name)) for item in fields(value)},
            )
        if field == "earlier":
            return tuple(self.process(process) for process in value)
        if isinstance(value, tuple):
            return tuple(self.given("", item) for item in value)
        if field in _NAMES:
            return self.name(value)
        if field in _PROCESSES:
            return self.process(value)
        return self.epoch(value) if field in _EPOCHS else value
