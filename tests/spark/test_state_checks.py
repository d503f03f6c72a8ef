"""V3 of a log that the broker's own cleaner has been through."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.assembly import Settings, cluster, order
from snapkafka.checks import CutView, ReadRange, Status, Verdict
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.manifest import CheckEntry, LedgerEntry, state_table
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.testing import EmbeddedKafka, wait_until
from snapkafka.wire import headers as wire
from tests.altering import alter_settings
from tests.spark.at_hand import settings_of
from tests.spark.engines import Engine
from tests.worlds.cleaned_log import EPOCH, HOUR, Changelog, captured, promised
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

#: Keys and values (None deletes) of a table before a cut. The last one lies in the segment that is written to, so the
#: cleaner leaves the one before it, which it supersedes.
WRITTEN: Final = (
    *((1, "10"), (2, "20"), (3, "30"), (1, "11"), (4, "40"), (2, None), (1, "12"), (5, None), (3, "31")),
    *((6, "60"), (6, "61")),
)
#: What is superseded below the last of them.
SUPERSEDED: Final = frozenset({0, 1, 2, 3})
LEDGER = LedgerEntry(topic="_snapkafka.cleaned", topic_id="ab" * 16)


# -- The broker's own cleaner ----------------------------------------------------------------------------------------


@dataclass
class Topic:
    """A partition of a compacted topic, each of whose records closes the segment before it."""

    bootstrap: str
    name: str
    partition: int = 0
    written: list[int] = field(default_factory=list)

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.name, self.partition)

    def write(self, key: int, value: str | None, *, epoch: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0})
        n = len(self.written)
        ledger = wire.ledger_id(bytes.fromhex(LEDGER.topic_id))
        header = wire.stamp(ledger, wire.tp_check(*self.tp), epoch, 1, n)
        at_ms = time.time_ns() // 1_000_000 - HOUR + n * 60_000
        producer.produce(
            self.name,
            None if value is None else value.encode(),
            b"%d" % key,
            self.partition,
            timestamp=at_ms,
            headers=[(wire.HEADER, header)],
        )
        assert producer.flush(20) == 0
        self.written.append(key)

    def offsets(self) -> list[int]:
        """Those that are there."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "looks",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([KafkaPartition(*self.tp, 0)])
        found = []
        try:
            while (message := consumer.poll(20)) is not None and message.error() is None:
                found.append(message.offset())
        finally:
            consumer.close()
        return found

    def await_cleaner(self, *left: int) -> None:
        wait_until(
            f"the cleaner to leave {left} of {self.tp}",
            lambda: self.offsets() == list(left),
            timeout_s=60,
        )

    def captured(self, end: int) -> Captured:
        """A snapshot that ends before the record `end`."""
        cut = captured([Changelog(self.tp, process=1)])
        return replace(
            cut,
            senders=(replace(cut.senders[0], white_end=end, last_seq=end - 1),),
            changelogs=(replace(cut.changelogs[0], end=end),),
        )


@dataclass
class Cleaned:
    """What the cleaner has been through: of `last` it took even the last white record; of `short` and `whole` only what
    was superseded before."""

    last: Topic
    short: Topic
    whole: Topic


@pytest.fixture(scope="module")
def cleaned() -> Iterator[Cleaned]:
    settings = {"cleanup.policy": "compact", "segment.ms": "30000", "min.cleanable.dirty.ratio": "0.001"}
    with EmbeddedKafka(properties={"log.cleaner.backoff.ms": "200"}) as broker:

        async def create(topics: dict[str, int]) -> None:
            admin = KafkaTopicAdmin(Connection(bootstrap=broker.bootstrap))
            for name, partitions in topics.items():
                await admin.create_topic(name, partitions=partitions, settings=settings)
            await admin.close()

        def stop_cleaning(name: str) -> None:
            alter_settings(broker.bootstrap, name, {"min.cleanable.dirty.ratio": "1.0"})

        asyncio.run(create({"short": 1, "last": 1, "whole": 1}))
        found = Cleaned(
            last=Topic(broker.bootstrap, "last"),
            short=Topic(broker.bootstrap, "short"),
            whole=Topic(broker.bootstrap, "whole"),
        )
        for key, epoch in ((2, 0), (1, 0), (1, EPOCH), (9, EPOCH)):
            found.last.write(key, "value", epoch=epoch)
        for key in (1, 1, 2, 2):
            found.short.write(key, "white")
        for key, value in WRITTEN:
            found.whole.write(key, value)
        found.last.await_cleaner(0, 2, 3)
        found.short.await_cleaner(1, 2, 3)
        found.whole.await_cleaner(*(offset for offset in range(len(WRITTEN)) if offset not in SUPERSEDED))
        for topic in (found.short, found.whole):
            stop_cleaning(topic.name)
            topic.write(3, "red", epoch=EPOCH)
        found.whole.write(9, "red", epoch=EPOCH)
        yield found


def verified(engine: Engine, *cuts: tuple[Topic, int]) -> CheckEntry:
    """V3 of a snapshot that was triggered an hour ago, from the log alone; each partition with the end of its state."""
    view, settings = looked_at(*cuts)
    outcomes = engine.of(settings).verify(view, settings, None).outcomes
    (of_state,) = [outcome for outcome in outcomes if outcome.name == "V3"]
    return of_state


def looked_at(*cuts: tuple[Topic, int]) -> tuple[CutView, Settings]:
    """Such a snapshot, and how its log is read."""
    an_hour_ago = time.time_ns() // 1_000_000 - HOUR
    single = [topic.captured(end) for topic, end in cuts]
    whole = replace(
        single[0],
        senders=tuple(end for one in single for end in one.senders),
        changelogs=tuple(changelog for one in single for changelog in one.changelogs),
    )
    bootstrap = cuts[0][0].bootstrap
    view = asyncio.run(
        cluster.ask_once(
            Connection(bootstrap=bootstrap),
            lambda admin: cluster.look(
                admin,
                promised(whole, uncompacted_ms=0),
                isolation="read_committed",
                triggered_ms=an_hour_ago,
            ),
        )
    )
    return view, settings_of(LEDGER, bootstrap=bootstrap, namespace="cleaned")


def test_the_last_white_record_was_compacted(engine: Engine, cleaned: Cleaned) -> None:
    found = verified(engine, (cleaned.last, 2))
    assert found.status is Status.UNVERIFIABLE
    assert [(w.topic, w.offset, w.process, w.seq) for w in found.witnesses] == [("last", 1, 1, 1)]


def test_compacted_short_of_the_cut(
    engine: Engine, cleaned: Cleaned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offset 2 is superseded by 3 and stands: the cleaner cannot have come to what was written after the cut."""
    assert cleaned.short.offsets() == [1, 2, 3, 4]
    assert verified(engine, (cleaned.short, 4)).status is Status.PASSED
    looked: list[ReadRange] = []

    def gone(self: object, wanted: Collection[ReadRange]) -> set[TopicPartition]:
        looked.extend(wanted)
        return set()

    monkeypatch.setattr(order.Examined, "still_there", gone)
    assert verified(engine, (cleaned.short, 4)).status is Status.UNVERIFIABLE, "it is looked at again"
    assert looked == [ReadRange("short", 0, 2, 3)]


def test_a_log_that_the_cleaner_went_through_is_assembled(
    engine: Engine, cleaned: Cleaned, tmp_path: Path
) -> None:
    """What was superseded before the cut is gone from the log, and the table is the fold of all that was written."""
    end = len(WRITTEN)
    there = cleaned.whole.offsets()
    assert there == sorted({*range(end + 2)} - SUPERSEDED), "it shows nothing where no offset is missing"
    expected = {key: (value, offset) for offset, (key, value) in enumerate(WRITTEN)}
    view, settings = looked_at((cleaned.whole, end))
    manifest = engine.assembled(view, settings, LocalStore(tmp_path))
    rows = pq.read_table(tmp_path / state_table(manifest).path, partitioning=None).to_pylist()
    assert sorted((row["key"], row["value"], row["changelog_offset"]) for row in rows) == [
        (str(key), value, offset) for key, (value, offset) in sorted(expected.items()) if value is not None
    ]
    reported = {check.name: (check.status, check.found) for check in manifest.checks}
    assert reported["V3"] == ("passed", 0)
    assert manifest.verdict == Verdict.VERIFIED
