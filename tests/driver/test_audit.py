"""`snapkafka audit` on real workers: what was changed in place is found by its key, and nothing else is."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka import ops
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from snapkafka.until import until
from tests.driver.live import live
from tests.features.harness import read_topics

pytestmark = pytest.mark.timeout(500)

#: So many events are under way around each cut: what all rounds write stays one small log.
ROUND = 150
TABLES = ("accounts", "counts", "lists", "members", "windows", "world")


class Running:
    """Workers of the audited app, one for each of `envs`."""

    def __init__(self, kafka: Broker, folder: Path, *envs: dict[str, str], **env: str) -> None:
        self.kafka, self.folder = kafka, folder
        self.namespace = f"a{uuid.uuid4().hex[:8]}"
        self.app = f"audited-{self.namespace}"
        self.envs, self.env = envs or ({}, {}), {"SMALL_APP_ID": self.app} | env
        self.sent = self.wanted = self.worldly = 0

    @contextmanager
    def started(self) -> Iterator[RunningSystem]:
        world, compact = f"{self.app}-world", {"cleanup.policy": "compact"}
        create_topics(self.kafka.bootstrap, world)
        create_topics(self.kafka.bootstrap, f"{world}-changelog", config=compact)
        tables = (*TABLES[:-1], "stored")
        with live(self.kafka, self.namespace, self.folder, tables=tables, app=self.app) as run:
            self.observer, self.system = run.observer, run.system
            for env in self.envs:
                run.start("tests.driver.audited_app", **self.env | env)
            run.await_workers()
            yield run.system
            run.system.check_alive()

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
        self.worldly += len(worldly)

    def more(self) -> None:
        """Let `under_load` send another round of events."""
        self.wanted = self.sent + ROUND

    def outputs(self, topic: str = "out", partitions: int = 2) -> int:
        tps = [TopicPartition(f"{self.app}-{topic}", partition) for partition in range(partitions)]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def settle(self) -> None:
        """Wait until every event has been processed; markers count as well, so this is a lower bound."""
        wait_until("the events", lambda: self.outputs() >= self.sent, timeout_s=90, system=self.system)
        wait_until(
            "the global table", lambda: self.outputs("world-changelog", 1) >= self.worldly, timeout_s=90
        )

    @contextmanager
    def under_load(self) -> Iterator[None]:
        """Send `ROUND` events when asked by `more`, until the end of the block; at most 60 ahead of the workers."""
        done = threading.Event()

        async def load() -> None:
            async with AIOKafkaProducer(bootstrap_servers=self.kafka.bootstrap, linger_ms=5) as producer:
                while not done.is_set():
                    for n in range(self.sent, self.sent + 5):
                        await producer.send(f"{self.app}-in", b"%d" % n, b"k%d" % (n % 40))
                        await producer.send(f"{self.app}-world", b"%d" % n, b'"w%d"' % (n % 300))
                    self.sent += 5
                    await asyncio.sleep(0.15)
                    await until(lambda: done.is_set() or self.outputs() >= self.sent - 60, 120, "the workers")
                    await until(lambda: done.is_set() or self.sent < self.wanted, 600, "the next round")

        thread = threading.Thread(target=lambda: asyncio.run(load()))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _outputs(self) -> Counter[bytes | None]:
        found = read_topics(self.kafka.bootstrap, f"{self.app}-out").get("", [])
        return Counter(record.value for record in found if (record.value or b"").isdigit())

    def check_outputs(self) -> None:
        """Wait until each event has its output, and compare them one by one."""
        expected: Counter[bytes | None] = Counter(b"%d" % n for n in range(self.sent))
        wait_until(
            "each output",
            lambda: self._outputs().keys() >= expected.keys(),
            timeout_s=180,
            system=self.system,
            period_s=1.0,
        )
        assert self._outputs() == expected

    def audit(self, **options: object) -> ops.AuditReport:
        spec = ops.JobSpec(
            namespace=self.namespace, storage=str(self.folder / "snapshots"), engine="embedded"
        )
        where = Connection(bootstrap=self.kafka.bootstrap)
        return asyncio.run(ops.audit(where, spec, ttl_ms=30_000, **options))  # type: ignore[arg-type]


def faults(found: ops.AuditReport) -> list[str]:
    return [finding.cause for finding in found.findings]


def test_a_value_changed_in_place_is_found_by_its_key(kafka: Broker, tmp_path: Path) -> None:
    """One of the tables lies in RocksDB."""
    running = Running(kafka, tmp_path, AUDITED_ROCKSDB="1")
    with running.started():
        running.send(*map(str, range(400)))
        running.settle()
        clean = running.audit()
        assert clean.same, (faults(clean), clean.partitions, clean.workers)
        assert {part.table for part in clean.partitions} == {*TABLES, "stored"}
        keyed = {*TABLES, "stored"} - {"windows"}  # a worker reads a global table's changelog when it likes

        def is_keyed() -> bool:
            return {part.table for part in running.audit().partitions if part.keys} >= keyed

        wait_until("keys of each table", is_keyed, timeout_s=60)
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


#: Until some event ran across a cut, which a quick machine seldom shows.
ROUNDS_MAX: Final = 150


@pytest.mark.parametrize(
    "rounds", [5, pytest.param(100, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize(
    "guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.nightly)]
)
def test_a_healthy_app_under_load_has_no_finding(
    kafka: Broker, tmp_path: Path, rounds: int, guarantee: str
) -> None:
    """What two workers send is complete in the end, record by record."""
    running = Running(kafka, tmp_path, AUDITED_GUARANTEE=guarantee)
    with running.started():
        seen: Counter[str] = Counter()
        with running.under_load():
            for number in range(ROUNDS_MAX):
                if number >= rounds and seen["in progress"]:
                    break
                running.more()
                found = running.audit()
                assert found.same, (faults(found), [it for it in found.partitions if it.reason])
                assert [worker.reason for worker in found.workers] == ["", ""]
                for part in found.partitions:
                    seen[part.table] += part.keys
                    seen["in progress"] += part.in_progress
                    seen["expired"] += part.expired
        print(dict(seen))
        assert all(seen[table] for table in TABLES if table != "windows"), seen
        assert seen["in progress"], "events ran across cuts"
        running.check_outputs()


def test_an_audit_that_takes_too_long_harms_neither_the_app_nor_the_snapshot(
    kafka: Broker, tmp_path: Path
) -> None:
    running = Running(kafka, tmp_path, {"AUDITED_FAULT": "slow"})
    with running.started():
        running.send(*map(str, range(100)))
        running.settle()
        with running.under_load():
            running.more()
            found = running.audit()
        assert found.verdict.startswith("VERIFIED")
        assert not found.same
        assert not found.findings
        reason = f"process {found.workers[0].process}: {found.workers[0].reason}"
        assert found.workers[0].reason.startswith("it was not done")
        assert {part.reason for part in found.partitions} == {reason}
        running.check_outputs()


def test_a_damaged_auditor_is_seen(kafka: Broker, tmp_path: Path) -> None:
    running = Running(kafka, tmp_path, {"AUDITED_FAULT": "wrong"})
    with running.started():
        running.send(*map(str, range(50)))
        running.settle()
        found = running.audit()
        compared = sum(part.keys for part in found.partitions)
        assert compared > 50
        assert len(found.findings) == compared
        assert all(part.differing == part.keys for part in found.partitions)
