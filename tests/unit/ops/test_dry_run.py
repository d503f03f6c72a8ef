"""`assemble --dry-run`: what would be read, topic by topic, and no Spark."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import verbs as commands
from snapkafka.errors import (
    LedgerUnusableError,
    OffsetsGoneError,
    SnapshotFailedError,
    TimedOutError,
    UnknownSnapshotError,
)
from snapkafka.kafka import find_captured, read_ledger
from snapkafka.manifest import dump
from snapkafka.manifest_entries import LedgerEntry, SettledEntry
from snapkafka.ops.dry_run import TopicReading
from snapkafka.protocol import TopicPartition
from snapkafka.store import LocalStore
from tests.worlds.fakes import FakeCluster, FakeTopic, Worker
from tests.worlds.on_disk import write_snapshot


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """Two partitions cut at 10; their logs hold [0, 100) and [5, 40); 1 GB lies in the first."""
    made = FakeCluster()
    Worker(made.the_ledger, "shop", "orders", partitions=2)
    made.the_admin.topics = {"orders": FakeTopic(2)}
    made.the_admin.ends = {TopicPartition("orders", 0): 100, TopicPartition("orders", 1): 40}
    made.the_admin.starts = {TopicPartition("orders", 1): 5}
    made.the_admin.sizes = {"orders": (1_000_000_000, 0)}
    monkeypatch.setattr(commands, "connect", lambda bootstrap: made)
    return made


def call(*arguments: str) -> Result:
    return CliRunner().invoke(
        commands.app, ["assemble", "--dry-run", *arguments], env={"SNAPKAFKA_NAMESPACE": "ns"}
    )


async def test_records_and_bytes_of_each_topic(cluster: FakeCluster) -> None:
    """From the positions on: 90 of the 100 offsets of the first, and 30 of the 35 of the second."""
    taken = await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    (found,) = await ops.plan_assembly(
        cluster, ops.JobSpec(namespace="ns", snapshots=("mine", str(taken.epoch), "latest"))
    )
    assert found.topics == (TopicReading(topic="orders", partitions=2, records=120, bytes=900_000_000),)
    assert (found.id, found.records, found.bytes) == ("mine", 120, 900_000_000)


async def test_what_is_deleted_below_the_cut_is_not_counted(cluster: FakeCluster) -> None:
    cluster.the_admin.starts = {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 20}
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    (found,) = await ops.plan_assembly(cluster, ops.JobSpec(namespace="ns", snapshots=("mine",)))
    assert (found.records, found.bytes) == (88 + 20, 1_000_000_000)


async def test_a_size_that_may_not_be_looked_at_is_not_guessed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(topic: str) -> dict[int, int]:
        raise LedgerUnusableError("the size is not told")

    monkeypatch.setattr(cluster.the_admin, "log_bytes", refused)
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    (found,) = await ops.plan_assembly(cluster, ops.JobSpec(namespace="ns", snapshots=("mine",)))
    assert (found.records, found.bytes) == (120, None)


async def test_what_assembly_would_refuse_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownSnapshotError):
        await ops.plan_assembly(cluster, ops.JobSpec(namespace="ns", snapshots=("nope",)))
    Worker(cluster.the_ledger, "slow", "sales", closes=False)
    await ops.trigger(cluster, "ns", snapshot_id="open")
    with pytest.raises(TimedOutError, match="is not captured yet"):
        await ops.plan_assembly(cluster, ops.JobSpec(namespace="ns", snapshots=("open",)))
    with pytest.raises(SnapshotFailedError):
        await ops.trigger(cluster, "ns", snapshot_id="late", ttl_ms=100, wait=True)
    with pytest.raises(SnapshotFailedError):
        await ops.plan_assembly(cluster, ops.JobSpec(namespace="ns", snapshots=("late",)))


def test_the_command_starts_no_spark(cluster: FakeCluster) -> None:
    CliRunner().invoke(commands.app, ["trigger", "--wait", "--id", "mine"], env={"SNAPKAFKA_NAMESPACE": "ns"})
    before = set(sys.modules)
    shown = call("mine")
    assert shown.exit_code == 0, shown.output
    assert "900.0 MB" in shown.stdout
    assert "120" in shown.stdout
    (reported,) = json.loads(call("mine", "--json").stdout)["snapshots"]
    assert reported["topics"] == [{"topic": "orders", "partitions": 2, "records": 120, "bytes": 900_000_000}]
    assert not {name for name in set(sys.modules) - before if name.startswith("pyspark")}
    assert call("nope").exit_code == 5


# -- incremental ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Chain:
    """`monday`, assembled, and `tuesday` that builds on it. The changelog has 1,000 records of a thousand bytes: 10
    below the cut of monday, of which all below 7 was white for it, and 900 below that of tuesday."""

    cluster: FakeCluster
    folder: Path

    def assembled(self, **other: Any) -> None:
        """Write what an assembly of monday would."""
        store = LocalStore(self.folder)
        before = write_snapshot(store, "monday", 1, state=[{"app": "shop", "table_name": "t"}])
        taken = find_captured(asyncio.run(read_ledger(self.cluster, "ns")).state, "monday")
        settled = (SettledEntry(topic="changes", partition=0, offset=7),)
        ledger = LedgerEntry(topic="_snapkafka.fake", topic_id="ab" * 16)
        manifest = dataclasses.replace(
            before,
            epoch=taken.epoch,
            captured=taken,
            settled=settled,
            isolation="read_committed",
            ledger=ledger,
        )
        (self.folder / "monday.json").write_text(dump(dataclasses.replace(manifest, **other)))

    def plan(self, *names: str, isolation: str = "") -> tuple[ops.ReadPlan, ...]:
        spec = ops.JobSpec(namespace="ns", snapshots=names, storage=str(self.folder), isolation=isolation)
        return asyncio.run(ops.plan_assembly(self.cluster, spec))


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chain:
    made = FakeCluster()
    worker = Worker(made.the_ledger, "shop", "orders", changelog="changes")
    made.the_admin.topics = {
        "orders": FakeTopic(1),
        "changes": FakeTopic(1),
        "_snapkafka.fake": FakeTopic(1, topic_id="ab" * 16),
    }
    made.the_admin.ends = {TopicPartition("orders", 0): 12, TopicPartition("changes", 0): 1_000}
    made.the_admin.sizes = {"orders": (12_000, 0), "changes": (1_000_000, 0)}
    monkeypatch.setattr(commands, "connect", lambda bootstrap: made)

    async def take() -> None:
        await ops.trigger(made, "ns", snapshot_id="monday", wait=True)
        worker.written = 900
        await ops.trigger(made, "ns", snapshot_id="tuesday", type="incremental", parent="monday", wait=True)

    asyncio.run(take())
    return Chain(made, tmp_path)


def read_of(reading: ops.ReadPlan, topic: str) -> tuple[int, int | None]:
    (found,) = (item for item in reading.topics if item.topic == topic)
    return found.records, found.bytes


def test_of_an_incremental_one_its_delta_counts(chain: Chain) -> None:
    """From where its parent was settled; of the full one all of the changelog. Inputs are read alike."""
    chain.assembled()
    monday, tuesday = chain.plan("monday", "tuesday")
    assert read_of(monday, "changes") == (1_000, 1_000_000)
    assert read_of(tuesday, "changes") == (993, 993_000)
    assert read_of(monday, "orders") == read_of(tuesday, "orders")
    assert [(item.parent, item.why_full) for item in (monday, tuesday)] == [("", ""), ("monday", "")]
    chain.assembled(settled=(SettledEntry(topic="changes", partition=0, offset=10),))
    (tuesday,) = chain.plan("tuesday")
    assert read_of(tuesday, "changes") == (990, 990_000), "nothing below the end of monday"


def test_without_an_assembled_parent_the_whole_state_is_read(chain: Chain) -> None:
    """Of two that are assembled together, too, this is the most that it can be."""
    (tuesday,) = chain.plan("tuesday")
    assert "builds on monday, which is not assembled" in tuesday.why_full
    monday, tuesday = chain.plan("tuesday", "monday")
    assert read_of(tuesday, "changes") == read_of(monday, "changes")
    assert tuesday.parent == ""
    assert "builds on monday" in tuesday.why_full


def test_a_parent_that_does_not_fit_is_named_and_the_whole_state_is_read(chain: Chain) -> None:
    def why(**settings: str) -> str:
        monday, tuesday = chain.plan("monday", "tuesday", **settings)
        assert read_of(tuesday, "changes") == read_of(monday, "changes")
        return tuesday.why_full

    chain.assembled(verdict="INCONSISTENT")
    assert "it is INCONSISTENT" in why()
    chain.assembled(ledger=LedgerEntry(topic="_snapkafka.fake", topic_id="cd" * 16))
    assert "it belongs to another ledger" in why()
    chain.assembled()
    assert "it was read with read_committed" in why(isolation="read_uncommitted")
    chain.cluster.the_admin.starts = {TopicPartition("changes", 0): 8}
    with pytest.raises(OffsetsGoneError, match=r"builds on .* from offset \d+, but its log now starts"):
        chain.plan("tuesday")


def test_the_command_says_what_is_new_and_touches_nothing(chain: Chain) -> None:
    chain.assembled()
    before = {path: path.stat().st_mtime_ns for path in chain.folder.rglob("*")}
    shown = call("tuesday", "--storage", str(chain.folder))
    assert shown.exit_code == 0, shown.output
    assert "changes since monday" in shown.stdout
    assert "993.0 kB" in shown.stdout
    (reported,) = json.loads(call("tuesday", "--storage", str(chain.folder), "--json").stdout)["snapshots"]
    assert (reported["parent"], reported["why_full"]) == ("monday", "")
    assert {path: path.stat().st_mtime_ns for path in chain.folder.rglob("*")} == before
    assert "whole state: snapshot tuesday builds on monday, which is not assembled" in " ".join(
        call("monday", "tuesday", "--storage", str(chain.folder / "new")).stdout.split()
    )
