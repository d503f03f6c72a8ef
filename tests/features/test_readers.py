"""Readers that do not know us: Kafka's console consumer, and Kafka Connect with JSON and with Avro."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse

from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from tests.driver.live import take
from tests.observing import Observer, observing

from .harness import PARTITIONS, Record, free_port, is_marker, read_topics, stop
from .readers import AVRO_PREFIX, AVRO_SCHEMA, Reader, connect, console, registry, sink

SNAPSHOTS: Final = 100
#: So many ask, each for the next one as soon as theirs is captured.
AT_ONCE: Final = 4
#: Between two events: so many that the app keeps up with them, and most snapshots meet some.
PAUSE_S: Final = 0.01
#: What the app writes for each event, one record each.
WRITTEN: Final = ("mid", "told", "out", "counts-changelog")


@pytest.mark.nightly
@pytest.mark.timeout(900)  # the first run fetches the readers, 70 MB
def test_external_groups_read_an_app_through_a_hundred_snapshots(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """They read each record, which has its header, and no marker. If they are allow-listed, markers are what they
    read, too: as records without a value, and with no error."""
    with running(kafka.bootstrap, namespace, tmp_path) as scene:
        scene.send(1)
        scene.check_read(1)  # a trigger sees their groups now
        sent, epochs = scene.take_under_load()
        snapshots = [scene.observer.state.snapshots[epoch] for epoch in epochs]
        assert [snapshot.failure for snapshot in snapshots] == [None] * SNAPSHOTS
        assert len(scene.positions(epochs)) > SNAPSHOTS // 10, "the snapshots were not taken under load"
        records = scene.check_read(sent)
        assert all(record.stamp is not None and not is_marker(record) for record in records)

        scene.take("allow-listed", knowing=scene.groups)
        records = scene.check_read(sent)
        assert {record.topic for record in records if is_marker(record)} == {
            f"{scene.app}-{name}" for name in ("mid", "told")
        }


def test_a_reader_that_complains_or_ends_is_noticed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        reader = Reader(process, tmp_path / "printed", log)
        log.write_text("[main] INFO all is well\n")
        reader.check_quiet()
        log.write_text("[main] ERROR a record that it cannot read\n")
        with pytest.raises(AssertionError, match="cannot read"):
            reader.check_quiet()
        log.write_text("")
        process.kill()
        process.wait()
        with pytest.raises(AssertionError):
            reader.check_quiet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """An app, and the readers of what it writes."""

    bootstrap: str
    app: str
    source: str
    observer: Observer
    system: RunningSystem
    groups: tuple[str, ...]
    readers: tuple[Reader, ...]
    #: What the console consumer, and each sink, has written so far.
    files: Mapping[str, Path]

    def send(self, count: int) -> None:
        asyncio.run(self._send(count, threading.Event()))

    async def _send(self, count: int, done: threading.Event) -> int:
        """Until so many are sent or somebody is done; how many."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            for n in range(count):
                if done.is_set():
                    return n
                await producer.send_and_wait(self.source, key=b"k%d" % (n % 7), value=b'{"n": %d}' % n)
                await asyncio.sleep(PAUSE_S)
        return count

    def take(self, name: str, *, knowing: Sequence[str] = ()) -> int:
        """The epoch; a busy machine may take long."""
        return take(self.observer, name, knowing=knowing, ttl_ms=20_000, timeout_s=30).epoch

    def take_under_load(self) -> tuple[int, list[int]]:
        """A hundred snapshots, one right after the other; how many events there were by then, and the epochs."""
        done = threading.Event()
        with ThreadPoolExecutor(1) as feeding, ThreadPoolExecutor(AT_ONCE) as taking:
            load = feeding.submit(lambda: asyncio.run(self._send(10**6, done)))
            try:
                epochs = list(taking.map(self.take, (f"s{n}" for n in range(SNAPSHOTS))))
            finally:
                done.set()
            return 1 + load.result(), epochs

    def positions(self, epochs: Sequence[int]) -> set[int]:
        """Where the snapshots found the reader of `mid`."""
        return {
            source.position
            for epoch in epochs
            for source in self.observer.state.captured(epoch).inputs
            if (source.topic, source.partition) == (f"{self.app}-mid", 0)
        }

    def check_read(self, sent: int) -> list[Record]:
        """The readers read line by line what lies in the log after so many events, and complain of nothing."""
        topics = [f"{self.app}-{name}" for name in WRITTEN]
        tps = [TopicPartition(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        self._wait(
            f"the app to write {len(WRITTEN) * sent} records",
            lambda: (
                sum(self.observer.call(self.observer.admin.log_ends(tps)).values()) >= len(WRITTEN) * sent
            ),
        )
        logs = read_topics(self.bootstrap, f"{self.app}-")
        mid, reported, out, changelog = (logs[name] for name in WRITTEN)
        expected = {
            "console": [in_console(record) for record in [*mid, *out, *changelog]],
            "json": [in_json(record) for record in [*mid, *out]],
            "avro": [in_avro(record) for record in reported],
        }
        self._wait(
            "the readers to come to the end",
            lambda: all(len(self._lines(name)) >= len(lines) for name, lines in expected.items()),
        )
        assert {name: sorted(self._lines(name)) for name in expected} == {
            name: sorted(lines) for name, lines in expected.items()
        }
        return [*mid, *reported, *out, *changelog]

    def _lines(self, name: str) -> list[str]:
        return self.files[name].read_text().splitlines()

    def _wait(self, what: str, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            for reader in self.readers:
                reader.check_quiet()
            return condition()

        wait_until(what, holds, timeout_s=60, system=self.system)


def in_console(record: Record) -> str:
    assert record.key is not None
    value = "null" if record.value is None else record.value.decode()
    return f"Partition:{record.partition}\tOffset:{record.offset}\t{record.key.decode()}\t{value}"


def in_json(record: Record) -> str:
    return "null" if record.value is None else str(json.loads(record.value))


def in_avro(record: Record) -> str:
    if record.value is None:
        return "null"
    body = io.BytesIO(record.value.removeprefix(AVRO_PREFIX))
    reported = DatumReader(parse(AVRO_SCHEMA)).read(BinaryDecoder(body))
    return f"Struct{{n={reported['n']}}}"


@contextlib.contextmanager
def running(bootstrap: str, namespace: str, folder: Path) -> Iterator[Scene]:
    """The app and its readers, from the start of the block to its end."""
    app, source = f"{namespace}-app", f"{namespace}-in-going"
    create_topics(bootstrap, source, *(f"{app}-{name}" for name in WRITTEN[:-1]), partitions=PARTITIONS)
    create_topics(
        bootstrap, f"{app}-{WRITTEN[-1]}", partitions=PARTITIONS, config={"cleanup.policy": "compact"}
    )
    system = RunningSystem(bootstrap=bootstrap, namespace=namespace, folder=folder)
    names = {kind: f"{namespace}-{kind}" for kind in ("json", "avro")}
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(registry())
        sinks = [
            sink(folder, names["json"], [f"{app}-mid", f"{app}-out"], "json", address),
            sink(folder, names["avro"], [f"{app}-told"], "avro", address),
        ]
        printing = stack.enter_context(
            console(bootstrap, folder, f"{app}-(mid|out|counts-changelog)", f"{namespace}-console")
        )
        sinking = stack.enter_context(connect(bootstrap, folder, free_port(), *(given for given, _ in sinks)))
        observer = stack.enter_context(observing(bootstrap, namespace))
        stack.callback(stop, system)
        system.start_worker(
            app,
            {"FEATURES_ID": app, "FEATURES_INPUT": f"{namespace}-in"},
            module="tests.features.apps.readable",
        )
        observer.wait_for_workers(system)
        yield Scene(
            bootstrap=bootstrap,
            app=app,
            source=source,
            observer=observer,
            system=system,
            groups=(f"{namespace}-console", *(f"connect-{name}" for name in names.values())),
            readers=(printing, sinking),
            files={"console": printing.printed, "json": sinks[0][1], "avro": sinks[1][1]},
        )
