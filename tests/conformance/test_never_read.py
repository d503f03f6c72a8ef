"""Records that a reader jumps over: each snapshot says which ones it never read, and why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from snapkafka import ops
from snapkafka.testing import Broker, RunningSystem, Taken, create_topics
from snapkafka.testing.taken import await_work
from snapkafka.until import blocking_until
from tests.conformance.running import ROOT
from tests.observing import observing

pytestmark = pytest.mark.timeout(200)


class Reader:
    """A process that reads one topic."""

    def __init__(self, kafka: Broker, namespace: str, folder: Path, library: str) -> None:
        self.group, self.topic = f"reader-{namespace}", f"{namespace}-numbers"
        self._library, self._kafka, self._folder = library, kafka, folder
        self._seen = folder / "seen.txt"
        self.system = RunningSystem(kafka.bootstrap, namespace, folder)
        self._environ = {
            "READING_WHERE": kafka.bootstrap,
            "READING_GROUP": self.group,
            "READING_TOPIC": self.topic,
            "READING_SEEN": str(self._seen),
            "SNAPKAFKA_NAMESPACE": namespace,
            "PYTHONPATH": str(ROOT),
        }
        create_topics(kafka.bootstrap, self.topic, partitions=1)

    @contextmanager
    def running(self) -> Iterator[None]:
        log = self._folder / "log.txt"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.conformance.reading_app", self._library],
                env=os.environ | self._environ,
                stdout=out,
                stderr=out,
                cwd=self._folder,
            )
        try:
            yield
            process.terminate()
            assert process.wait(60) in (0, -signal.SIGTERM), log.read_text()[-3000:]
        finally:
            process.kill()
            process.wait()
            print(log.read_text()[-3000:])

    def send(self, *values: str) -> None:
        producer = Producer({"bootstrap.servers": self._kafka.bootstrap})
        for value in values:
            producer.produce(self.topic, value)
        assert producer.flush(30) == 0

    def delete_below(self, offset: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        for done in admin.delete_records([TopicPartition(self.topic, 0, offset)]).values():
            done.result(30)

    def seen(self) -> list[int]:
        return [int(line) for line in self._seen.read_text().split()] if self._seen.exists() else []

    def taken(self) -> Taken:
        return self.system.snapshot(ttl_ms=20_000)

    def never_read(self, taken: Taken) -> set[tuple[int, int, str]]:
        """What a snapshot says of it, which is the same everywhere."""
        found = taken.assert_consistent()
        assert found.verdict == "VERIFIED"
        notes = [note for check in found.checks for note in check.notes if note.kind.startswith("never-read")]
        noted = sum(check.noted for check in found.checks)
        shown = await_work(ops.show(self.system.connection, self.system.namespace, taken.id))
        items = shown.never_read
        assert [(item.app, item.topic, item.partition) for item in items] == [
            (self.group, self.topic, 0)
        ] * len(items)
        assert [note.offset for note in notes] == [item.start for item in items]
        assert noted == sum(item.end - item.start for item in items)
        (position,) = taken.query("SELECT never_read FROM positions")
        assert position["never_read"] == noted
        codes = [
            item.code for item in await_work(ops.doctor(self.system.connection, self.system.namespace)).found
        ]
        assert ("never-read" in codes) == bool(items)
        return {(item.start, item.end, item.reason) for item in items}


@pytest.mark.parametrize("library", ["faust", "aiokafka", "confluent"])
def test_records_that_were_never_read_are_named(
    kafka: Broker, namespace: str, tmp_path: Path, library: str
) -> None:
    """Of a log that was shortened before its reader came to it, and of a loop that seeks forward."""
    reader = Reader(kafka, namespace, tmp_path, library)
    skips = set() if library == "faust" else {(11, 30, "sought")}
    reader.send(*(f"{n}" if n != 10 else "seek 30" for n in range(40)))
    with observing(kafka.bootstrap, namespace) as observer:
        with reader.running():
            wanted = [n for n in range(40) if not any(a <= n < b for a, b, _ in skips)]
            blocking_until(lambda: reader.seen() == wanted, 60, "the first records to be read")
            assert reader.never_read(reader.taken()) == skips
        reader.send(*(f"{n}" for n in range(40, 100)))
        reader.delete_below(80)
        blocking_until(lambda: not list(observer.state.living()), 60, "it to leave")
        with reader.running():
            wanted += range(80, 100)
            blocking_until(lambda: reader.seen() == wanted, 60, "what is left to be read")
            assert reader.never_read(reader.taken()) == {(40, 80, "lost")}
