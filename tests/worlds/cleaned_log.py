"""Random changelogs, and a cleaner that goes through them as Kafka's does: as far as it comes, it leaves the last
record of each key. Deletions it drops only in a later round, and only where `tombstones_ms` allows it."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from snapkafka.checks import CutView, Keeping, LogBounds, LogRecord
from snapkafka.protocol import Captured, Retention, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, ProcessCut, SenderEnd
from snapkafka.topic_config import UNBOUNDED
from tests.worlds.little_log import CAPTURED

EPOCH = 1_000_000
HOUR = 3_600_000


@dataclass
class Changelog:
    """A changelog as it is by now, and what was ever written to it. `values`: by offset; None deletes."""

    tp: TopicPartition
    process: int
    written: list[LogRecord] = field(default_factory=list)
    values: dict[int, str | None] = field(default_factory=dict)
    log: list[LogRecord] = field(default_factory=list)
    start: int = 0
    clean: int = 0
    keeping: Keeping | None = None

    @property
    def view(self) -> CutView:
        return CutView(captured([self]), {self.tp: self.bounds})

    @property
    def bounds(self) -> LogBounds:
        return LogBounds(start=self.start, end=len(self.written), keeping=self.keeping)

    @property
    def white(self) -> list[LogRecord]:
        return [record for record in self.written if record.epoch < EPOCH and not record.marker]

    def state(self, records: list[LogRecord]) -> dict[int, str]:
        """The fold of what is white among them."""
        last: dict[int, str | None] = {}
        view = self.view
        for record in records:
            if view.in_state(record):
                assert record.key_hash is not None
                last[record.key_hash] = self.values[record.offset]
        return {key: value for key, value in last.items() if value is not None}

    def write(self, key: int, value: str | None, *, epoch: int = 0, marker: bool = False) -> None:
        offset = len(self.written)
        record = LogRecord(*self.tp, offset, self.process, epoch, offset, marker, key_hash=key)
        self.written.append(record)
        self.values[offset] = value
        self.log.append(record)

    def compact(self, upto: int, *, drop: bool) -> None:
        """A round of the cleaner, up to `upto`. `drop`: deletions that an earlier round has seen go."""
        last = {record.key_hash: record.offset for record in self.log if record.offset < upto}
        gone = {at for at, value in self.values.items() if drop and at < self.clean and value is None}
        stays = {at for at in last.values() if at not in gone}
        self.log = [record for record in self.log if record.offset >= upto or record.offset in stays]
        self.clean = max(self.clean, upto)


def changelog(rng: random.Random, n: int) -> Changelog:
    """White writes, then some of both colours, then red ones; the cleaner comes by now and then."""
    forgets = rng.random() < 0.3
    keeping = Keeping(age_ms=HOUR, tombstones_ms=0 if forgets else 24 * HOUR)
    known = rng.choice((keeping, keeping, None))
    table = Changelog(TopicPartition(f"table{n}", 0), process=n, keeping=known)
    keys, chance = rng.randint(1, 6), rng.choice((0.0, 0.1, 0.3))
    phases = [(rng.randint(0, 12), 0.0), (rng.randint(0, 4), 0.5), (rng.randint(0, 8), 1.0)]
    for steps, red in phases:
        for _ in range(steps):
            value = None if rng.random() < 0.2 else f"v{len(table.written)}"
            epoch = EPOCH if rng.random() < red else 0
            table.write(rng.randint(1, keys), value, epoch=epoch)
            if rng.random() < chance:
                table.compact(rng.randint(table.clean, len(table.written)), drop=forgets)
    for _ in range(rng.randint(0, 2)):
        table.compact(rng.randint(table.clean, len(table.written)), drop=forgets)
    if rng.random() < 0.1:
        table.start = rng.randint(0, len(table.written))
        table.log = [record for record in table.log if record.offset >= table.start]
    return table


def captured(tables: list[Changelog]) -> Captured:
    """A snapshot of them, as their processes would have closed it."""
    senders, changelogs = [], []
    for table in tables:
        end = max((record.offset + 1 for record in table.white), default=0)
        of: dict[str, Any] = table.tp._asdict() | {"process": table.process}
        senders.append(SenderEnd(**of, white_end=end, last_seq=end - 1))
        changelogs.append(ChangelogCut(**of, app="app", table="t", topic_id="", end=end))
    return replace(
        CAPTURED,
        id="random",
        epoch=EPOCH,
        processes=tuple(ProcessCut(process=table.process, app="app") for table in tables),
        inputs=(),
        senders=tuple(senders),
        changelogs=tuple(changelogs),
        recorded=(),
    )


def promised(cut: Captured, *, uncompacted_ms: int = 0) -> Captured:
    """Its changelogs had such a lag when it was triggered, and else Kafka's own settings."""
    topics = sorted({changelog.topic for changelog in cut.changelogs})
    kept: dict[str, Any] = {"tombstones_ms": 24 * HOUR, "retained_ms": UNBOUNDED}
    retention = (Retention(topic=topic, uncompacted_ms=uncompacted_ms, **kept) for topic in topics)
    return replace(cut, retention=tuple(retention))
