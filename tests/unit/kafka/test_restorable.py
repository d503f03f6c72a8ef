"""What `show` and a refusal say of how long a snapshot can be made again from the log."""

from __future__ import annotations

import dataclasses

import pytest

from snapkafka import ops
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError
from snapkafka.kafka.cluster.restorable import in_words, restorable
from snapkafka.manifest_entries import RestorableEntry
from snapkafka.ports import Topic
from snapkafka.protocol import ChangelogCut, TopicPartition
from tests.unit.base.test_manifest import example
from tests.unit.kafka.test_retention import CUT, HOUR, MIN, NOW
from tests.worlds.fakes import FakeAdmin, FakeCluster, Worker


@pytest.fixture
def cluster() -> FakeCluster:
    """A captured snapshot: `orders` is unread from 10 to 12; a changelog that is compacted."""
    made = FakeCluster()
    Worker(made.the_ledger, "shop", "orders", partitions=2)
    made.the_admin.topics = {"orders": Topic(2)}
    made.the_admin.ends = {TopicPartition("orders", n): 100 for n in range(2)}
    made.the_admin.settings = {"orders": {"retention.ms": str(HOUR)}}
    made.the_admin.times = {TopicPartition("orders", n): CUT + n * MIN for n in range(2)}
    return made


async def shown(cluster: FakeCluster) -> RestorableEntry:
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    found = (await ops.show(cluster, "ns", "mine", clock=lambda: NOW)).restorable
    assert found is not None
    return found


async def test_show_says_it_of_what_is_captured(cluster: FakeCluster) -> None:
    found = await shown(cluster)
    assert (found.how, found.until, found.topic, found.partition) == (
        "until",
        "2027-01-15T09:00:00.000+00:00",
        "orders",
        0,
    )
    said = in_words(found, NOW)
    assert said.startswith(
        "restorable until 2027-01-15 09:00:00 UTC: orders[0] deletes records after 1 h (retention.ms)"
    )
    assert "no longer restorable since 2027-01-15 09:00:00 UTC: orders" in in_words(found, CUT + 2 * HOUR)


async def test_show_says_what_is_gone(cluster: FakeCluster) -> None:
    cluster.the_admin.starts[TopicPartition("orders", 1)] = 11
    found = await shown(cluster)
    assert (
        in_words(found, NOW) == "no longer restorable: orders[1] its log starts at 11, the snapshot needs 10"
    )
    del cluster.the_admin.ends[TopicPartition("orders", 1)]
    cluster.the_admin.topics = {"orders": Topic(1)}
    again = (await ops.show(cluster, "ns", "mine")).restorable
    assert again is not None
    assert again.why == "it was deleted, or recreated, since the cut"


async def test_of_a_windowed_table() -> None:
    tp = TopicPartition("log", 0)
    cut = ChangelogCut(
        app="a", table="t", topic=tp.topic, topic_id="", partition=0, end=50, process=0, expires_ms=HOUR
    )
    captured = dataclasses.replace(example().captured, inputs=(), senders=(), changelogs=(cut,))
    admin = FakeAdmin(ends={tp: 100}, times={tp: 5}, settings={"log": {"retention.ms": str(3 * HOUR)}})
    found = await restorable(admin, captured, cut_ms=CUT, now=lambda: NOW)
    assert (found.how, found.until) == ("until", "2027-01-15T10:00:00.000+00:00")


@pytest.mark.parametrize("error", [LedgerUnusableError, BrokerUnavailableError])
async def test_show_of_what_cannot_be_looked_at(cluster: FakeCluster, error: type[SnapkafkaError]) -> None:
    await ops.trigger(cluster, "ns", snapshot_id="mine", wait=True)
    cluster.the_admin.failure = error("not allowed to look")
    found = (await ops.show(cluster, "ns", "mine")).restorable
    assert found is not None
    assert in_words(found, NOW) == "unknown for how long it is restorable: not allowed to look"
