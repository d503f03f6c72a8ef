"""V3 of a log that the broker's own cleaner has been through."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from snapkafka.assembly import Settings, cluster
from snapkafka.checks import CutView, Status, Verdict
from snapkafka.kafka import Connection
from snapkafka.manifest import STATE
from snapkafka.protocol import TopicPartition
from snapkafka.testing import EmbeddedKafka, create_topics, wait_until
from tests.altering import alter_settings
from tests.features.harness import read_topics
from tests.spark.at_hand import ENTRY, row_of, settings_of
from tests.spark.engines import Engine, rows
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


# -- The broker's own cleaner ----------------------------------------------------------------------------------------


@dataclass
class Topic(Changelog):
    """A changelog that lies in a compacted topic, too, each of whose records closes the segment before it."""

    bootstrap: str = ""

    def write(self, key: int, value: str | None, *, epoch: int = 0, marker: bool = False) -> None:
        super().write(key, value, epoch=epoch, marker=marker)
        row = row_of(self.written[-1], value=None if value is None else value.encode())
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0})
        at_ms = time.time_ns() // 1_000_000 - HOUR + row["offset"] * 60_000
        headers = [(it["key"], it["value"]) for it in row["headers"]]
        producer.produce(
            row["topic"], row["value"], row["key"], self.tp.partition, timestamp=at_ms, headers=headers
        )
        assert producer.flush(20) == 0

    def offsets(self) -> list[int]:
        """Those that are there."""
        return [record.offset for record in read_topics(self.bootstrap, self.tp.topic)[""]]

    def await_cleaner(self, *left: int) -> None:
        found = f"the cleaner to leave {left} of {self.tp}"
        wait_until(found, lambda: self.offsets() == list(left), timeout_s=60)


@dataclass
class Cleaned:
    """What the cleaner has been through: of `last` it took even the last white record; of `whole` only what was
    superseded before."""

    last: Topic
    whole: Topic


@pytest.fixture(scope="module")
def cleaned() -> Iterator[Cleaned]:
    settings = {"cleanup.policy": "compact", "segment.ms": "30000", "min.cleanable.dirty.ratio": "0.001"}
    with EmbeddedKafka(properties={"log.cleaner.backoff.ms": "200"}) as broker:
        create_topics(broker.bootstrap, "last", "whole", config=settings)
        tps = (TopicPartition(name, 0) for name in ("last", "whole"))
        found = Cleaned(*(Topic(tp, process=1, bootstrap=broker.bootstrap) for tp in tps))
        for key, epoch in ((2, 0), (1, 0), (1, EPOCH), (9, EPOCH)):
            found.last.write(key, "value", epoch=epoch)
        for key, value in WRITTEN:
            found.whole.write(key, value)
        found.last.await_cleaner(0, 2, 3)
        found.whole.await_cleaner(*(offset for offset in range(len(WRITTEN)) if offset not in SUPERSEDED))
        alter_settings(broker.bootstrap, "whole", {"min.cleanable.dirty.ratio": "1.0"})
        for key in (3, 9):
            found.whole.write(key, "red", epoch=EPOCH)
        yield found


def looked_at(topic: Topic) -> tuple[CutView, Settings]:
    """Such a snapshot, and how its log is read."""
    cut = promised(captured([topic]))
    look = partial(cluster.look, captured=cut, isolation="read_committed", age_ms=HOUR)
    view = asyncio.run(cluster.ask_once(Connection(bootstrap=topic.bootstrap), look))
    return view, settings_of(ENTRY, bootstrap=topic.bootstrap, namespace="cleaned")


def test_the_last_white_record_was_compacted(engine: Engine, cleaned: Cleaned) -> None:
    view, settings = looked_at(cleaned.last)
    _, checked = engine.of(settings).verify(view, settings)
    (found,) = (it for it in checked.outcomes if it.name == "V3")
    assert found.status is Status.UNVERIFIABLE
    assert [(w.topic, w.offset, w.process, w.seq) for w in found.witnesses] == [("last", 1, 1, 1)]


def test_a_log_that_the_cleaner_went_through_is_assembled(
    engine: Engine, cleaned: Cleaned, tmp_path: Path
) -> None:
    """What was superseded before the cut is gone from the log, and the table is the fold of all that was written.
    Offset 9 is superseded by 10 and stands: the cleaner cannot have come to what was written after the cut."""
    there = cleaned.whole.offsets()
    assert there == sorted({*range(len(WRITTEN) + 2)} - SUPERSEDED), "else nothing is shown"
    view, settings = looked_at(cleaned.whole)
    manifest = engine.assembled(view, settings, store := LocalStore(tmp_path))
    last = {str(key): (value, offset) for offset, (key, value) in enumerate(WRITTEN)}
    assert {row["key"]: (row["value"], row["changelog_offset"]) for row in rows(store, manifest, STATE)} == {
        key: row for key, row in last.items() if row[0] is not None
    }
    reported = {check.name: (check.status, check.found) for check in manifest.checks}
    assert reported["V3"] == ("passed", 0)
    assert manifest.verdict == Verdict.VERIFIED
