"""`keep --incremental` goes on, on a real broker, through what used to end it: a release that drops a table, another
storage, and records with times in nanoseconds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from aiokafka import AIOKafkaProducer

from snapkafka import ops
from snapkafka.protocol import TopicPartition
from snapkafka.testing import EmbeddedKafka, RunningSystem, create_topics, wait_until
from tests.observing import Observer, observing

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3600)]

#: As brokers before Kafka 4.0 are: they take any time.
ANY_TIME = {"log.message.timestamp.after.max.ms": str(2**63 - 1)}
NANOSECONDS = 1_790_000_000_123_456_789


class Kept:
    """The app, and rounds of `keep`, each at a moment of its own."""

    def __init__(self, system: RunningSystem, observer: Observer, app: str, folder: Path) -> None:
        self.system, self.observer, self.app, self.folder = system, observer, app, folder
        self._every_s = iter((7, 11, 13, 17, 19, 23, 29, 31, 37))
        self._sent = 0

    def start(self, release: str) -> None:
        env = {"DROPPING_APP_ID": self.app, "DROPPING_APP_RELEASE": release}
        self.system.start_worker(self.app, env, module="tests.e2e.dropping_app")
        self.observer.wait_for_workers(self.system)

    def send(self, key: str, *, at_ms: int | None = None) -> None:
        """Send a record, and wait until the table that stays has its change."""
        self._sent += 1

        async def send() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self.system.bootstrap) as producer:
                await producer.send_and_wait(
                    f"{self.app}-orders", b"value", key=key.encode(), timestamp_ms=at_ms
                )

        self.observer.call(send())
        changes = TopicPartition(f"{self.app}-counts-changelog", 0)
        wait_until(
            f"change {self._sent} of the table",
            lambda: self.observer.call(self.observer.admin.log_ends([changes]))[changes] >= self._sent,
            timeout_s=60,
            system=self.system,
        )

    def round(self, storage: str) -> ops.KeptRound:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "snapkafka", "keep", "--once", "--incremental", "--json"),
                *("--every", f"{next(self._every_s)}s", "--ttl", "30s"),
                *("--storage", str(self.folder / storage)),
                *("--bootstrap", self.system.bootstrap, "--namespace", self.system.namespace),
            ],
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
        found = msgspec.json.decode(done.stdout.splitlines()[-1], type=ops.KeptRound)
        assert found.outcome is ops.Outcome.VERIFIED, found
        return found


def test_every_next_round_is_green(namespace: str, tmp_path: Path) -> None:
    app = f"dropping-{namespace}"
    with EmbeddedKafka(properties=ANY_TIME) as kafka:
        create_topics(kafka.bootstrap, f"{app}-orders", partitions=1)
        system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
        try:
            with observing(kafka.bootstrap, namespace) as observer:
                kept = Kept(system, observer, app, tmp_path)
                kept.start("1")
                kept.send("a")
                assert (first := kept.round("old")).type == "full"
                kept.send("b")
                second = kept.round("old")
                assert (second.type, second.why_full) == ("incremental", "")

                system.interrupt(system.workers[-1])
                kept.start("2")
                kept.send("a")
                dropped = kept.round("old")
                assert dropped.type == "incremental"
                assert f"cannot build on {second.id}: table lengths of app {app}" in dropped.why_full
                kept.send("c")
                assert kept.round("old").why_full == "", "it builds on the one with its whole state"

                kept.send("a", at_ms=NANOSECONDS)
                kept.send("d", at_ms=1_700_000_000_000)
                kept.send("b", at_ms=NANOSECONDS)
                strange = kept.round("old")
                assert (strange.type, strange.why_full) == ("incremental", "")

                elsewhere = kept.round("new")
                assert elsewhere.type == "full", "nothing that it could build on lies there"
                kept.send("e")
                last = kept.round("new")
                assert (last.type, last.why_full) == ("incremental", "")
                parents = {view.trigger.id: view.trigger.parent for view in observer.state.snapshots.values()}
                assert (parents[last.id], parents[first.id]) == (elsewhere.id, "")
        finally:
            for worker in system.workers:
                print(worker.last_lines(40))
            system.stop()
    queried = subprocess.run(
        [
            *(sys.executable, "-m", "snapkafka", "query", "--json", "--snapshot", last.id),
            *("--storage", str(Path(last.manifest).parent)),
            "SELECT key, value, table_name FROM state ORDER BY key",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert queried.returncode == 0, queried.stderr
    rows = [
        [str(row[name]).strip('"') for name in ("key", "value", "table_name")]
        for row in json.loads(queried.stdout)["rows"]
    ]
    assert rows == [[key, count, "counts"] for key, count in zip("abcde", "32111", strict=True)]
