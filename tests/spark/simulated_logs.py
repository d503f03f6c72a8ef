"""What runs of the simulator leave: consistent snapshots with everything that happens to honest systems.

Retries, failed sends, transactions, rebalances, replays, torn events, processes that left and zombies are the
simulator's; a cleaner that goes over the changelogs is put on top. Each snapshot comes as one of the small worlds of
`small_logs`, with topics, processes and epochs of its own, so that many are looked at in one go.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from snapkafka.checks import CutView, LogBounds, LogRecord
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.sim.log import Broker
from snapkafka.sim.run import judge, played

from .small_logs import EPOCH, World

__all__ = ["APART", "consistent"]

#: Between the processes of one world and those of the next; no ledger of a run is as long.
APART = 10_000
_NAMES = {"topic", "changelog", "app"}
_PROCESSES = {"process", "receiver", "sender"}
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
        records = _cleaned(rng, world.broker, CutView(captured), world.broker.records(world.fold), counts)
        yield _small(captured, records, world.broker, n)
        n += 1
        counts["snapshots"] += 1
        counts["torn"] += any(source.torn for source in captured.inputs)
        counts["replays"] += bool(captured.replays)
        counts["left"] += any(cut.left for cut in captured.processes)
        counts["transactions"] += world.plan.exactly_once
        for name in ("rebalances", "duplicates", "failed_sends", "zombies", "crashes"):
            counts[name] += world.counts[name] > 0


def _cleaned(
    rng: random.Random, broker: Broker, view: CutView, records: list[LogRecord], counts: Counter[str]
) -> list[LogRecord]:
    """Without some records of changelogs for which there is a later one of their key below the end of the state."""
    latest: dict[tuple[TopicPartition, str], int] = {}
    tables = view.changelogs.keys() - view.inputs.keys()
    for tp in tables:
        for offset, stored in enumerate(broker.logs.get(tp, [])[: view.state_end(tp)]):
            latest[tp, stored.key] = offset
    kept = []
    for record in records:
        tp, offset = record.tp, record.offset
        old = tp in tables and offset < latest.get((tp, broker.logs[tp][offset].key), -1)
        if old and rng.random() < 0.5:
            counts["cleaned"] += 1
        else:
            kept.append(record)
    return kept


def _small(captured: Captured, records: list[LogRecord], broker: Broker, n: int) -> World:
    names = _Names(captured.epoch, n)
    parts = ("processes", "inputs", "senders", "changelogs", "recorded")
    whole = World(
        records=[names.record(record) for record in records],
        bounds={names.tp(tp): LogBounds(start=0, end=len(log)) for tp, log in broker.logs.items()},
    )
    for part in parts:
        setattr(whole, part, [names.given("", value) for value in getattr(captured, part)])
    return whole


class _Names:
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
