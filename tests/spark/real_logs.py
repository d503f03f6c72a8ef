"""Writes runs of the simulator to a real broker: one record after the other as they came, with real headers, real
transactions that stay open as long as they did, deletions in the changelogs; and, if that is wanted, waits until the
broker's own cleaner has been through.

The broker gives offsets of its own, as the end of a transaction takes one: the snapshot is told by those.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Final

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.checks import EXTERNAL, LogRecord
from snapkafka.demo import wait_until
from snapkafka.manifest_entries import LedgerEntry
from snapkafka.protocol import (
    Captured,
    ChangelogCut,
    InputCut,
    Position,
    Recorded,
    Running,
    SenderEnd,
    TopicPartition,
    TornEvent,
)
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.wire import headers as wire

from .simulated_logs import DELETED, PARTS
from .simulated_runs import Append, End, Run

LEDGER: Final = LedgerEntry(topic="_snapkafka.simulated", topic_id="ab" * 16)
#: The ids of it and of another one that was there before, as headers have them.
OURS: Final = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
FORMER: Final = OURS ^ 1
HOUR: Final = 3_600_000
#: From an hour ago past the ends of transactions, whose time is now; brokers take nothing that is an hour ahead.
LEAP: Final = HOUR + HOUR * 5 // 6
#: Runs that are played side by side: so many of their transactions are open at once at most.
BESIDE: Final = 50
LAG_MS: Final = 24 * HOUR
KEPT: Final = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(LAG_MS)}
#: Its segments end where the time of a record makes a leap.
CLEANED: Final = {"cleanup.policy": "compact", "segment.ms": "30000", "min.cleanable.dirty.ratio": "0.001"}
#: Fields that name one offset, and fields that end a range of them.
AT: Final = {
    TornEvent: ("offset",),
    Running: ("offset",),
    SenderEnd: ("marker",),
    Position: ("started_above",),
}
ENDS: Final = {
    InputCut: ("position", "noted", "low", "log_end"),
    Position: ("offset", "replay_until"),
    SenderEnd: ("white_end", "landed_end", "earlier_end"),
    ChangelogCut: ("end",),
    Recorded: ("start", "end"),
}
MOVED: Final = AT.keys() | ENDS.keys()
#: Fields that hold numbers, and no offsets of the topics of a run.
NO_OFFSETS: Final = {
    "partition", "process", "sender", "receiver", "earlier", "formerly", "previous", "pid", "report", "closed",
    "first", "last", "last_seq", "earlier_seq", "was", "met", "expires_ms", "cut_us",
}  # fmt: skip


@dataclass(eq=False)
class Written:
    """A run in real topics.

    `offsets`: of each partition, where its n-th record has come to lie. `deletions`: how many there are in changelogs.
    `leaps`: where a segment of a changelog ends that is to be cleaned, by the number of its record. `taken`: what the
    cleaner has taken.
    """

    run: Run
    cleaned: bool
    offsets: dict[TopicPartition, list[int]] = field(default_factory=lambda: defaultdict(list))
    deletions: int = 0
    leaps: dict[TopicPartition, int] = field(default_factory=dict)
    taken: set[tuple[TopicPartition, int]] = field(default_factory=set)

    @property
    def captured(self) -> Captured:
        """Its snapshot, by the offsets of the broker."""
        return replace(
            self.run.captured, **{part: self._moved(getattr(self.run.captured, part)) for part in PARTS}
        )

    @property
    def records(self) -> list[LogRecord]:
        """What a reader of committed records sees."""
        committed = [self._record(step.record) for step in self.run.appended if not step.aborted]
        return [record for record in committed if (record.tp, record.offset) not in self.taken]

    def _record(self, record: LogRecord) -> LogRecord:
        cause = record.cause and (record.cause[0], self.at(*record.cause))
        return record._replace(offset=self.offsets[record.tp][record.offset], cause=cause or None)

    def _moved(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._moved, value))
        if not is_dataclass(value) or isinstance(value, type):
            return value
        moved = {item.name: self._moved(getattr(value, item.name)) for item in fields(value)}
        kind = type(value)
        for name in AT.get(kind, ()):
            moved[name] = self.at(TopicPartition(value.topic, value.partition), moved[name])  # type: ignore[attr-defined]
        for name in ENDS.get(kind, ()):
            moved[name] = self._end(TopicPartition(value.topic, value.partition), moved[name])  # type: ignore[attr-defined]
        return replace(value, **moved)

    def at(self, tp: TopicPartition, place: Any) -> Any:
        """Return the offset at the broker; of a topic that the snapshot does not read nothing was written."""
        if isinstance(place, tuple):
            return tuple(self.at(tp, one) for one in place)
        return self.offsets[tp][place] if place >= 0 and tp in self.offsets else place

    def _end(self, tp: TopicPartition, end: int) -> int:
        """Behind the record before it; what the broker has put between the two is nobody's."""
        return self.offsets[tp][end - 1] + 1 if end > 0 and tp in self.offsets else end


def write(bootstrap: str, runs: Iterable[Run], cleaned: Callable[[Run], bool]) -> list[Written]:
    """Make topics for them, and play them.

    Args:
        cleaned: is a run one whose changelogs are for the cleaner? Else it has to leave them alone for a day.
    """
    written = [Written(run, cleaned(run)) for run in runs]
    _create(bootstrap, written)
    writer = _Writer(bootstrap)
    for at in range(0, len(written), BESIDE):
        writer.play(written[at : at + BESIDE])
    return written


def _create(bootstrap: str, written: list[Written]) -> None:
    alike: dict[tuple[int, str], list[str]] = defaultdict(list)
    settings: Mapping[str, Mapping[str, str]] = {"": {}, "kept": KEPT, "cleaned": CLEANED}
    for one in written:
        view = one.run.view
        partitions: dict[str, int] = defaultdict(int)
        for tp in (*view.inputs, *view.changelogs, *(step.record.tp for step in one.run.appended)):
            partitions[tp.topic] = max(partitions[tp.topic], tp.partition + 1)
        state = {tp.topic for tp in view.changelogs}
        for topic, count in partitions.items():
            kind = ("cleaned" if one.cleaned else "kept") if topic in state else ""
            alike[count, kind].append(topic)
        for tp in view.changelogs if one.cleaned else ():
            size = sum(step.record.tp == tp for step in one.run.appended)
            if size > 1:  # at the cut, or where that is the end of the log before its last record
                one.leaps[tp] = min(max(1, view.state_end(tp)), size - 1)
    for (count, kind), topics in alike.items():
        create_topics(bootstrap, *topics, partitions=count, config=settings[kind], timeout_s=60)


class _Writer:
    """Producers: one for what is in no transaction, and one for each transaction that is open."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}
        self._plain = Producer({**self._settings, "enable.idempotence": True})
        self._free: list[Producer] = []
        self._made = 0
        self._open: dict[tuple[int, int], Producer] = {}
        self._began_ms = time.time_ns() // 1_000_000 - HOUR

    def play(self, runs: list[Written]) -> None:
        """A step of each at a time: what one step needs to know the one before it has found out."""
        for steps in itertools.zip_longest(*(one.run.steps for one in runs)):
            ends: list[tuple[Written, End]] = []
            for one, step in zip(runs, steps, strict=True):
                if isinstance(step, Append):
                    self._append(one, step)
                elif isinstance(step, End):
                    ends.append((one, step))
            for producer in (self._plain, *self._open.values()):
                assert producer.flush(30) == 0
            for one, step in ends:
                self._end(one, step)

    def _append(self, one: Written, step: Append) -> None:
        producer = self._plain
        if step.transaction is not None:
            place = (one.run.n, step.transaction)
            if place not in self._open:
                self._open[place] = self._begun()
            producer = self._open[place]
        record = step.record
        state = record.tp in one.run.view.changelogs
        key: bytes | None = step.key.encode() or None
        value: bytes | None = b'{"n": 1}'
        if record.marker:
            key, value = wire.marker_key(record.process), None
        elif state and random.Random(f"{record.tp} {record.offset}").random() < DELETED:
            value = None
            one.deletions += 1
        late = state and record.offset >= one.leaps.get(record.tp, record.offset + 1)

        def landed(error: object, message: Any) -> None:
            assert error is None, error
            assert len(one.offsets[record.tp]) == record.offset
            one.offsets[record.tp].append(message.offset())

        producer.produce(
            record.topic,
            value,
            key,
            record.partition,
            timestamp=self._began_ms + (LEAP if late else 0),
            headers=_headers(one, step),
            on_delivery=landed,
        )

    def _begun(self) -> Producer:
        if not self._free:
            self._made += 1
            name = f"of the simulator {self._made}"
            self._free.append(Producer({**self._settings, "transactional.id": name}))
            self._free[-1].init_transactions(30)
        producer = self._free.pop()
        producer.begin_transaction()
        return producer

    def _end(self, one: Written, step: End) -> None:
        producer = self._open.pop((one.run.n, step.transaction), None)
        if producer is None:
            return  # there was nothing in it that is read
        if step.commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
        self._free.append(producer)


def _headers(one: Written, step: Append) -> list[tuple[str, bytes]]:
    record = step.record
    if step.foreign:
        return [(wire.HEADER, wire.stamp(FORMER, wire.tp_check(*record.tp), 1, 1, 1))]
    if record.process == EXTERNAL:
        return []
    said = OURS, wire.tp_check(*record.tp), record.epoch, record.process, record.seq
    if record.marker:
        return [(wire.HEADER, wire.marker(*said, 0))]
    if record.cause is None:
        return [(wire.HEADER, wire.stamp(*said))]
    (topic, partition), at = record.cause
    offset = one.at(record.cause[0], at)
    return [(wire.HEADER, wire.stamp_with_cause(*said, wire.topic_check(topic), partition, offset))]


def await_cleaner(broker: EmbeddedKafka, written: Iterable[Written]) -> None:
    """Until it has come to where each segment ends that is to be cleaned."""
    wanted = {tp: one.offsets[tp][at] for one in written for tp, at in one.leaps.items()}

    def reached() -> bool:
        file = broker.folder / "data" / "cleaner-offset-checkpoint"
        lines = (line.rsplit(" ", 2) for line in file.read_text().splitlines()[2:]) if file.exists() else ()
        upto = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in lines}
        return all(upto.get(tp, 0) >= offset for tp, offset in wanted.items())

    wait_until(f"the cleaner to go over {len(wanted)} partitions", reached, timeout_s=180)


def there(bootstrap: str, tps: Iterable[TopicPartition]) -> set[tuple[TopicPartition, int]]:
    """Which offsets of partitions a reader of committed records gets."""
    wanted = sorted(set(tps))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "looks",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.assign([KafkaPartition(*tp, 0) for tp in wanted])
    found, at_end = set[tuple[TopicPartition, int]](), 0
    try:
        while at_end < len(wanted):
            message = consumer.poll(30)
            assert message is not None, "the broker does not answer"
            if message.error() is not None:
                at_end += 1
            else:
                found.add((TopicPartition(message.topic(), message.partition()), message.offset()))
    finally:
        consumer.close()
    return found
