"""`snapkafka audit` on real workers: what was changed in place is found by its key, and nothing else is."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka import ops
from snapkafka.demo.observer import observing
from snapkafka.demo.system import System, wait_until
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker, create_topics

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(500)]

TABLES = ("accounts", "counts", "lists", "members", "windows", "world")


class Running:
    """Two workers of the audited app."""

    def __init__(self, kafka: Broker, folder: Path, workers: int = 2, **env: str) -> None:
        self.kafka, self.folder = kafka, folder
        self.namespace = f"a{uuid.uuid4().hex[:8]}"
        self.app = f"audited-{self.namespace}"
        self.workers, self.env = workers, {"SMALL_APP_ID": self.app} | env
        self.sent = 0

    @contextmanager
    def started(self) -> Iterator[System]:
        topics = [f"{self.app}-{name}" for name in ("in", "out")]
        changelogs = [f"{self.app}-{name}-changelog" for name in (*TABLES[:-1], "stored")]
        create_topics(self.kafka.bootstrap, *topics, partitions=2)
        create_topics(self.kafka.bootstrap, *changelogs, partitions=2, config={"cleanup.policy": "compact"})
        create_topics(self.kafka.bootstrap, f"{self.app}-world")
        create_topics(
            self.kafka.bootstrap, f"{self.app}-world-changelog", config={"cleanup.policy": "compact"}
        )
        system = System(bootstrap=self.kafka.bootstrap, namespace=self.namespace, folder=self.folder)
        try:
            with observing(self.kafka.bootstrap, self.namespace) as self.observer:
                for _ in range(self.workers):
                    system.start_worker(self.app, self.env, module="tests.driver.audited_app")
                self.observer.wait_for_workers(system)
                self.system = system
                yield system
                system.check_alive()
        finally:
            system.stop()

    async def _send(self, records: list[tuple[str, str, str]]) -> None:
        async with AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap, linger_ms=5) as producer:
            for topic, key, value in records:
                await producer.send(f"{self.app}-{topic}", value.encode(), key.encode())

    def send(self, *values: str, keys: int = 40) -> None:
        """Send events, and as many for the global table."""
        records = [("in", f"k{n % keys}", value) for n, value in enumerate(values)]
        worldly = [("world", f'"w{n % 5}"', value) for n, value in enumerate(values) if value.isdigit()]
        asyncio.run(self._send(records + worldly))
        self.sent += len(values)

    def outputs(self) -> int:
        tps = [TopicPartition(f"{self.app}-out", partition) for partition in range(2)]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def settle(self) -> None:
        """Wait until every event has been processed; markers count as well, so this is a lower bound."""
        wait_until("the events", lambda: self.outputs() >= self.sent, timeout_s=90, system=self.system)

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Send events until the end of the block."""
        done = threading.Event()

        async def load() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap, linger_ms=5) as producer:
                while not done.is_set():
                    for n in range(self.sent, self.sent + 20):
                        await producer.send(f"{self.app}-in", b"%d" % n, b"k%d" % (n % 40))
                        await producer.send(f"{self.app}-world", b"%d" % n, b'"w%d"' % (n % 5))
                    self.sent += 20
                    await asyncio.sleep(0.05)

        thread = threading.Thread(target=lambda: asyncio.run(load()))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def audit(self, **options: object) -> ops.AuditReport:
        spec = ops.JobSpec(
            namespace=self.namespace, storage=str(self.folder / "snapshots"), engine="embedded"
        )
        where = Connection(bootstrap=self.kafka.bootstrap)
        return asyncio.run(ops.audit(where, spec, ttl_ms=30_000, **options))  # type: ignore[arg-type]


def faults(found: ops.AuditReport) -> list[str]:
    return [finding.cause for finding in found.findings]


def test_a_value_changed_in_place_is_found_by_its_key(kafka: Broker, tmp_path: Path) -> None:
    running = Running(kafka, tmp_path)
    with running.started():
        running.send(*map(str, range(400)))
        running.settle()
        clean = running.audit()
        assert clean.same, (faults(clean), clean.partitions, clean.workers)
        assert {part.table for part in clean.partitions} == set(TABLES)
        assert all(worker.how == "fork" for worker in clean.workers), clean.workers
        running.send("in-place", keys=1)
        running.settle()
        found = running.audit()
        assert [(it.table, it.key, it.kind) for it in found.findings] == [
            ("accounts", '"k0"', "changed"),
            ("lists", '"k0"', "changed"),
        ]
        lists = found.findings[1]
        assert lists.worker is not None
        assert lists.changelog is not None
        assert '"in-place"' in lists.worker
        assert '"in-place"' not in lists.changelog
        assert not found.same
