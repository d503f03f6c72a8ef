"""Writes logs to a real broker, each record at just its offset: real headers, and where offsets are missing real
transactions, committed and aborted ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.checks import EXTERNAL, LogRecord
from snapkafka.manifest_entries import LedgerEntry
from snapkafka.protocol import TopicPartition
from snapkafka.testing import create_topics, wait_until
from snapkafka.wire import headers as wire

from .small_logs import World

LEDGER: Final = LedgerEntry(topic="_snapkafka.simulated", topic_id="ab" * 16)
#: Its id as headers have it.
OURS: Final = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
LAG_MS: Final = 24 * 3_600_000
#: The cleaner has to leave changelogs alone for a day.
KEPT: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(LAG_MS)}


@dataclass
class Step:
    """A record, or none; `commits`: it is in a transaction whose end takes the next offset; `missing`: so many offsets
    are those of an aborted transaction."""

    end: int
    record: LogRecord | None = None
    commits: bool = False
    missing: int = 0


def steps_of(records: Iterable[LogRecord], end: int) -> Iterator[Step]:
    """Yield what makes a log with these records, in order, that ends there."""
    records = list(records)
    for record, after in zip([None, *records], [*(r.offset for r in records), end], strict=True):
        upto = 0 if record is None else record.offset + 1
        missing = after - upto
        if record is not None:
            yield Step(upto + (missing == 1), record, commits=missing == 1)
        elif missing == 1:
            raise ValueError("no transaction has a single offset")
        if missing > 1:
            yield Step(after, missing=missing)


def can_be_written(world: World) -> bool:
    """Return whether there is a log with just these offsets."""
    first = {tp: bounds.end for tp, bounds in world.bounds.items()}
    for record in sorted(world.records, key=lambda r: r.offset, reverse=True):
        first[record.tp] = record.offset
    return 1 not in first.values()


def write(bootstrap: str, worlds: Iterable[World]) -> int:
    """Create topics for worlds, and append their records, a step of each partition at a time.

    Returns:
        How many transactions that took.
    """
    ends: dict[TopicPartition, int] = {}
    state: set[str] = set()
    log: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
    for world in worlds:
        ends |= {tp: bounds.end for tp, bounds in world.bounds.items()}
        state |= {cut.topic for cut in world.changelogs}
        for record in sorted(world.records, key=lambda record: record.offset):
            log[record.tp].append(record)
    _create(bootstrap, ends, state)
    steps = {tp: list(steps_of(log[tp], end)) for tp, end in ends.items()}
    writer = _Writer(bootstrap, state)
    for nth in range(max(map(len, steps.values()))):
        writer.round({tp: of[nth] for tp, of in steps.items() if nth < len(of)})
    return writer.transactions


def _create(bootstrap: str, tps: Iterable[TopicPartition], state: set[str]) -> None:
    partitions: dict[str, int] = defaultdict(int)
    for tp in tps:
        partitions[tp.topic] = max(partitions[tp.topic], tp.partition + 1)
    alike: dict[tuple[int, bool], list[str]] = defaultdict(list)
    for topic, count in partitions.items():
        alike[count, topic in state].append(topic)
    for (count, kept), topics in alike.items():
        create_topics(bootstrap, *topics, partitions=count, config=KEPT if kept else {}, timeout_s=60)


class _Writer:
    def __init__(self, bootstrap: str, state: set[str]) -> None:
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0}
        self._state = state
        self._plain = Producer({**settings, "enable.idempotence": True})
        self._tx = Producer({**settings, "transactional.id": "of the simulator"})
        self._tx.init_transactions(30)
        self._ends = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "log_level": 0})
        self._wrong: list[str] = []
        self.transactions = 0

    def round(self, steps: dict[TopicPartition, Step]) -> None:
        for step in steps.values():
            if step.record is not None and not step.commits:
                self._send(self._plain, step.record)
        assert self._plain.flush(30) == 0
        committed = {tp: step for tp, step in steps.items() if step.commits}
        aborted = {tp: step for tp, step in steps.items() if step.missing}
        for commits, of in ((True, committed), (False, aborted)):
            if not of:
                continue
            self._tx.begin_transaction()
            self.transactions += 1
            for tp, step in of.items():
                if step.record is not None:
                    self._send(self._tx, step.record)
                for _ in range(step.missing - 1):
                    self._tx.produce(tp.topic, b"{}", b"nobody's", tp.partition)
            assert self._tx.flush(30) == 0
            self._tx.commit_transaction(30) if commits else self._tx.abort_transaction(30)
            for tp, step in of.items():
                self._await_end(tp, step.end)
        assert not self._wrong, self._wrong[:3]

    def _send(self, producer: Producer, record: LogRecord) -> None:
        def landed(error: object, message: Any) -> None:
            if error is not None or message.offset() != record.offset:
                self._wrong.append(f"{record} came to lie at {error or message.offset()}")

        marker = record.marker
        deletes = marker or (record.topic in self._state and record.seq % 4 == 3)
        key = wire.marker_key(record.process) if marker else b'"k%d"' % (record.seq % 3)
        producer.produce(
            record.topic,
            None if deletes else b'{"n": 1}',
            key,
            record.partition,
            headers=header_of(record),
            on_delivery=landed,
        )

    def _await_end(self, tp: TopicPartition, end: int) -> None:
        """The coordinator writes the ends of transactions by and by."""
        wait_until(
            f"{tp} to end at {end}",
            lambda: self._ends.get_watermark_offsets(KafkaPartition(*tp), timeout=10)[1] == end,
            timeout_s=30,
            period_s=0.01,
        )


def header_of(record: LogRecord) -> list[tuple[str, bytes]]:
    said = OURS, wire.tp_check(*record.tp), record.epoch, record.process, record.seq
    if record.process == EXTERNAL:
        return []
    if record.marker:
        return [(wire.HEADER, wire.marker(*said, 0))]
    if record.cause is None:
        return [(wire.HEADER, wire.stamp(*said))]
    (topic, partition), offset = record.cause
    return [(wire.HEADER, wire.stamp_with_cause(*said, wire.topic_check(topic), partition, offset))]
