"""What runs of the simulator leave: consistent snapshots with all that happens to honest systems, and broken ones.

Retries, failed sends, transactions, rebalances, replays, torn events, processes that left and zombies are the
simulator's. Each snapshot comes as one of the small worlds of `small_logs`, with topics, processes and epochs of its
own, so that many are looked at in one go.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

from snapkafka.checks import EXTERNAL, CutView, LogBounds, LogRecord, Verdict, reading_ranges
from snapkafka.protocol import NOBODY, Captured, TopicPartition
from snapkafka.sim import World as Simulated
from snapkafka.sim import make_plan, played
from snapkafka.sim.runs import judge
from snapkafka.sim.world.broker_log import ABORTED
from tests.sim.mutants.rules import MUTANTS

from .small_logs import EPOCH, World, captured
from .written_logs import can_be_written

#: Between the processes of one world and those of the next; no ledger of a run is as long.
APART = 10_000
#: What a captured snapshot is made of.
PARTS = ("processes", "inputs", "senders", "changelogs", "recorded")
#: The first seed whose aborted transactions can be written.
ABORTS: Final = 92
#: Mutants whose seed has a snapshot that its log gives away, each in a way of its own.
BROKEN: Final = (
    *("R7 event", "R7 transaction", "R7 failed"),
    *("R8 start", "R8 late start", "R2 agent", "R9 moved"),
)
#: Seeds of mutants whose pinned one gives no snapshot that the checks call inconsistent.
ACCUSED: Final = {"R7 event": 8, "R7 failed": 2, "R8 late start": 6, "R9 moved": 3}
_NAMES = {"topic", "changelog", "app"}
_PROCESSES = {"process", "receiver", "sender", "formerly"}
_EPOCHS = {"was", "met"}


def consistent(seed: int, n: int) -> Iterator[tuple[World, set[str]]]:
    """The snapshots of one seed that are consistent by causality, and no verdict doubts, numbered from `n` on; and what
    happens in each."""
    world, _ = played(seed)
    for epoch in world.fold.snapshots:
        wrong, verdict = judge(world, epoch)
        if not wrong and verdict is not None and verdict.good:
            captured = world.fold.captured(epoch)
            yield _whole(world, captured, n), kinds(world, captured)
            n += 1


def healthy(count: int) -> list[tuple[World, set[str]]]:
    """So many, of `ABORTS` and the seeds from 0 on; of each the one with the most in it."""
    found: list[tuple[World, set[str]]] = []
    seeds = itertools.chain([ABORTS], (seed for seed in itertools.count() if seed != ABORTS))
    while len(found) < count:
        seed = next(seeds)
        runs = [it for it in consistent(seed, 10 * seed + 1) if can_be_written(it[0]) and not hides(it[0])]
        found += sorted(runs, key=lambda run: len(run[1]))[-1:]
    return found


def hides(world: World) -> bool:
    """Return whether a send without a result landed below what assembly reads, where it looks lost (`send-failed`)."""
    view = CutView(captured(world), world.bounds)
    starts = {item[:2]: item.start for item in reading_ranges(view)}
    return any(it.offset < starts.get(it[:2], 0) and view.is_unacknowledged(it) for it in world.records)


def broken(name: str, n: int) -> World:
    """A snapshot of a mutant that is not consistent, and is known not to be by its log."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    seed = ACCUSED.get(name, mutant.seed)
    with mutant.patch():
        world, _ = played(seed, mutant.plan(replace(make_plan(seed), retries=0)))
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if wrong and verdict is Verdict.INCONSISTENT:
                run = _whole(world, world.fold.captured(epoch), n)
                if can_be_written(run):
                    return run
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


def kinds(world: Simulated, captured: Captured) -> set[str]:
    """What happened to the system of a run, as far as this snapshot can tell of it."""
    view = CutView(captured)
    logs = {tp: log for tp, log in world.broker.logs.items() if tp in view.inputs or tp in view.changelogs}
    seqs = Counter(
        (tp, record.process, record.seq)
        for tp, log in logs.items()
        for record in log
        if record.process != EXTERNAL and record.ledger == world.broker.ledger_id
    )
    facts = {
        "torn events": any(cut.torn for cut in captured.processes),
        "replays": captured.replays > 0,
        "left": any(cut.left for cut in captured.processes),
        "retries": any(n > 1 for n in seqs.values()),
        "asked for again": captured.attempt > 1,
        # Who reads an input now is not who read it first; that everybody is given inputs at the start is none.
        "rebalances": any(
            process not in (NOBODY, source.receiver)
            for source in captured.inputs
            for process in source.earlier
        ),
        # What an event writes to a table is part of a transaction.
        "transactions": world.plan.exactly_once and any(logs.get(tp) for tp in view.changelogs),
        "aborted transactions": any(r.state == ABORTED for log in logs.values() for r in log),
        "in flight": any(
            view.in_channel(record, source)
            for record in world.broker.records()
            for source in view.inputs.get(record.tp, ())
        ),
        "failed sends": world.counts["failed_sends"] > 0,
        "zombies": world.counts["zombies"] > 0,
        "crashes": world.counts["crashes"] > 0,
        "partitions added": world.counts["partitions_added"] > 0,
    }
    return {name for name, is_so in facts.items() if is_so}


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
