"""`assemble --dry-run`: what would be read, topic by topic, and no Spark."""

from __future__ import annotations

import json
import sys

import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import app as commands
from snapkafka.errors import LedgerUnusableError, SnapshotFailedError, TimedOutError, UnknownSnapshotError
from snapkafka.ops.planning import TopicReading
from snapkafka.protocol.records import TopicPartition
from tests.fakes import FakeCluster, FakeTopic, Worker


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
    (found,) = await ops.plan_assembly(cluster, "ns", ["mine", str(taken.epoch), "latest"])
    assert found.topics == (TopicReading(topic="orders", partitions=2, records=120, bytes=900_000_000),)
    assert (found.id, found.records, found.bytes) == ("mine", 120, 900_000_000)


async def test_what_is_deleted_below_the_cut_is_not_counted(cluster: FakeCluster) -> None:
    cluster.the_admin.starts = {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 20}
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    (found,) = await ops.plan_assembly(cluster, "ns", ["mine"])
    assert (found.records, found.bytes) == (88 + 20, 1_000_000_000)


async def test_a_size_that_may_not_be_looked_at_is_not_guessed(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(topic: str) -> dict[int, int]:
        raise LedgerUnusableError("the size is not told")

    monkeypatch.setattr(cluster.the_admin, "log_bytes", refused)
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    (found,) = await ops.plan_assembly(cluster, "ns", ["mine"])
    assert (found.records, found.bytes) == (120, None)


async def test_what_assembly_would_refuse_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(UnknownSnapshotError):
        await ops.plan_assembly(cluster, "ns", ["nope"])
    Worker(cluster.the_ledger, "slow", "sales", closes=False)
    await ops.trigger(cluster, "ns", snapshot_id="open")
    with pytest.raises(TimedOutError, match="is not captured yet"):
        await ops.plan_assembly(cluster, "ns", ["open"])
    with pytest.raises(SnapshotFailedError):
        await ops.trigger(cluster, "ns", snapshot_id="late", ttl_ms=100, wait=True)
    with pytest.raises(SnapshotFailedError):
        await ops.plan_assembly(cluster, "ns", ["late"])


def test_the_command_starts_no_spark(cluster: FakeCluster) -> None:
    CliRunner().invoke(commands.app, ["trigger", "--wait", "--id", "mine"], env={"SNAPKAFKA_NAMESPACE": "ns"})
    before = set(sys.modules)
    shown = call("mine")
    assert shown.exit_code == 0, shown.output
    assert "900.0 MB" in shown.stdout
    assert "120" in shown.stdout
    (told,) = json.loads(call("mine", "--json").stdout)["snapshots"]
    assert told["topics"] == [{"topic": "orders", "partitions": 2, "records": 120, "bytes": 900_000_000}]
    assert not {name for name in set(sys.modules) - before if name.startswith("pyspark")}
    assert call("nope").exit_code == 5
