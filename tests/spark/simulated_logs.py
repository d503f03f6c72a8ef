"""What runs of the simulator leave: consistent snapshots with everything that happens to honest systems.

Retries, failed sends, transactions, rebalances, replays, torn events, processes that left and zombies are the
simulator's; deletions in the changelogs, and a cleaner that goes over them, are put on top: one that takes any of
what is superseded, or one that works as Kafka's does and comes past the cut as well. Each snapshot comes as one of
the small worlds of `small_logs`, with topics, processes and epochs of its own, so that many are looked at in one go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final
from zlib import crc32

from snapkafka.checks import EXTERNAL, CutView, Keeping, LogBounds, LogRecord, Verdict
from snapkafka.protocol import NOBODY, Captured, TopicPartition
from snapkafka.sim import SimBroker, make_plan, played
from snapkafka.sim import World as Simulated
from snapkafka.sim.runs import judge
from snapkafka.sim.world.broker_log import ABORTED
from tests.sim.mutants.rules import MUTANTS
from tests.worlds.cleaned_log import HOUR

from .small_logs import EPOCH, World
from .written_logs import can_be_written

#: Between the processes of one world and those of the next; no ledger of a run is as long.
APART = 10_000
#: So many of the values that go into a changelog are deletions.
DELETED = 0.25
#: What the settings of a changelog may promise, for a cut of an hour ago: the usual; that nothing younger than a day is
#: compacted; that deletions go at once; and nothing that anybody knows.
KEPT: Final = (
    *[Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR)] * 3,
    Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR, uncompacted_ms=24 * HOUR),
    Keeping(age_ms=HOUR),
    None,
)
#: What a captured snapshot is made of.
PARTS = ("processes", "inputs", "senders", "changelogs", "recorded")
#: Mutants whose seed has a snapshot that its log gives away, each in a way of its own.
BROKEN: Final = (
    *(
        "R7 event",
        "R7 transaction",
        "R7 failed",
        "R8 start",
        "R8 late start",
        "R2 agent",
        "R9 history",
        "R12 dead",
    ),
)
#: Seeds of mutants whose pinned one gives no snapshot that the checks call inconsistent.
ACCUSED: Final = {"R8 late start": 5}
_NAMES = {"topic", "changelog", "app"}
_PROCESSES = {"process", "receiver", "sender", "formerly"}
_EPOCHS = {"was", "met"}


def consistent(seed: int, n: int, counts: Counter[str]) -> Iterator[World]:
    """The snapshots of one seed that are consistent by causality, and no verdict doubts; numbered from `n` on.

    Args:
        counts: is told what there is in them.
    """
    world, _ = played(seed)
    rng = random.Random(seed)
    for epoch in world.fold.snapshots:
        found, verdict = judge(world, epoch)
        if found or verdict is None or not verdict.good:
            continue
        captured = world.fold.captured(epoch)
        view, records = CutView(captured), world.broker.records()
        compacted = _Compacted()
        if rng.random() < 0.5:
            records = _cleaned(rng, world.broker, view, records, counts)
        else:
            records = compacted.go_over(rng, world.broker, view, records)
        yield _small(captured, records, world.broker, n, compacted)
        n += 1
        counts["snapshots"] += 1
        counts.update(kinds(world, captured))


def healthy(count: int) -> list[tuple[World, set[str]]]:
    """So many runs, of the seeds from 0 on, as nobody has cleaned their logs: of each the snapshot with the most in it;
    and what that is."""
    found: list[tuple[World, set[str]]] = []
    seed = 0
    while len(found) < count:
        world, _ = played(seed)
        runs = []
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if not wrong and verdict is not None and verdict.good:
                captured = world.fold.captured(epoch)
                runs.append((_whole(world, captured, len(found) + 1), kinds(world, captured)))
        found += sorted((run for run in runs if can_be_written(run[0])), key=lambda run: len(run[1]))[-1:]
        seed += 1
    return found


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


def _whole(world: Simulated, captured: Captured, n: int) -> World:
    """A snapshot, and what of the logs of its run it reads."""
    run = _small(captured, world.broker.records(), world.broker, n, _Compacted())
    cuts: list[Any] = [*run.inputs, *run.changelogs]
    read = {TopicPartition(cut.topic, cut.partition) for cut in cuts}
    run.bounds = {tp: bounds for tp, bounds in run.bounds.items() if tp in read}
    run.records = [record for record in run.records if record.tp in read]
    return run


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


def _cleaned(
    rng: random.Random, broker: SimBroker, view: CutView, records: list[LogRecord], counts: Counter[str]
) -> list[LogRecord]:
    """Without some records of changelogs for which there is a later one of their key below the end of the state, and
    without some deletions there, which go in the end though nothing follows on them."""
    latest: dict[tuple[TopicPartition, str], int] = {}
    tables = view.changelogs.keys() - view.inputs.keys()
    for tp in tables:
        for offset, stored in enumerate(broker.logs.get(tp, [])[: view.state_end(tp)]):
            latest[tp, stored.key] = offset
    kept, seen = [], set[str]()
    for record in records:
        tp, offset = record.tp, record.offset
        last = latest.get((tp, broker.logs[tp][offset].key), -1) if tp in tables else -1
        deletes = offset <= last and rng.random() < DELETED
        if deletes:
            seen.add("tombstones")
        if (offset < last or deletes) and rng.random() < 0.5:
            seen.add("cleaned" if offset < last else "tombstones cleaned")
        else:
            kept.append(record)
    counts.update(seen)
    return kept


@dataclass
class _Compacted:
    """Changelogs that a cleaner has gone through as Kafka's does: as far as it came it left the last record of a key.

    `kept`: what their settings promise. `written`, `deletions`: see `small_logs.World`.
    """

    kept: dict[TopicPartition, Keeping | None] = field(default_factory=dict)
    written: dict[TopicPartition, list[LogRecord]] = field(default_factory=dict)
    deletions: set[tuple[TopicPartition, int]] = field(default_factory=set)

    def go_over(
        self, rng: random.Random, broker: SimBroker, view: CutView, records: list[LogRecord]
    ) -> list[LogRecord]:
        """All records, without what it has taken of the changelogs; those that are left there have their `key_hash`."""
        tables = view.changelogs.keys() - view.inputs.keys()
        left = [record for record in records if record.tp not in tables]
        for tp in sorted(tables):
            log = broker.logs.get(tp, [])
            lines = [
                record._replace(
                    key_hash=crc32(
                        (f"_sk:{record.process}" if record.marker else log[record.offset].key).encode()
                    )
                )
                for record in records
                if record.tp == tp
            ]
            self.written[tp], self.kept[tp] = lines, rng.choice(KEPT)
            self.deletions |= {
                (tp, r.offset)
                for r in lines
                if r.marker or (r.key_hash is not None and rng.random() < DELETED)
            }
            left += self._rounds(rng, view, tp, len(log))
        return left

    def _rounds(self, rng: random.Random, view: CutView, tp: TopicPartition, end: int) -> list[LogRecord]:
        lines, kept, clean = self.written[tp], self.kept[tp], 0
        later = (r.offset for r in lines if not r.marker and not view.in_state(r))
        # What is written after the cut is too young to supersede anything.
        upto_max = min(later, default=end) if kept is not None and kept.uncompacted_ms else end
        for _ in range(rng.randint(0, 2)):
            upto = rng.randint(clean, max(clean, upto_max))
            last = {r.key_hash: r.offset for r in lines if r.offset < upto}
            lines = [
                r
                for r in lines
                if r.offset >= upto
                or (last[r.key_hash] == r.offset and not (r.offset < clean and self._forgotten(rng, view, r)))
            ]
            clean = upto
        return lines

    def _forgotten(self, rng: random.Random, view: CutView, record: LogRecord) -> bool:
        """Is it a deletion that an earlier round has seen, and that may go? Of what came after the cut only where
        the settings say so."""
        kept = self.kept[record.tp]
        old = view.in_state(record) or kept is None or not kept.tombstones_ms
        return (record.tp, record.offset) in self.deletions and old and rng.random() < 0.5


def _small(
    captured: Captured, records: list[LogRecord], broker: SimBroker, n: int, compacted: _Compacted
) -> World:
    names = Names(captured.epoch, n)
    whole = World(
        records=[names.record(record) for record in records],
        bounds={
            names.tp(tp): LogBounds(start=0, end=len(log), keeping=compacted.kept.get(tp))
            for tp, log in broker.logs.items()
        },
        written={names.tp(tp): list(map(names.record, lines)) for tp, lines in compacted.written.items()},
        deletions={(names.tp(tp), offset) for tp, offset in compacted.deletions},
    )
    here = names.captured(captured)
    for part in PARTS:
        setattr(whole, part, list(getattr(here, part)))
    return whole


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
