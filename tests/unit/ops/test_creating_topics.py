"""`topics create`: what is created, and what stays as it is."""

from __future__ import annotations

import pytest

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.ports import Topic
from tests.worlds.fakes import FakeCluster


async def test_what_exists_stays_as_it_is() -> None:
    cluster = FakeCluster()
    cluster.the_admin.topics = {"orders": Topic(2)}
    made = await ops.create_topics(
        cluster,
        ["orders", "table"],
        partitions=4,
        settings={"cleanup.policy": "compact", "retention.ms": "604800000", "no.such": "1"},
    )
    assert [(it.topic, it.created, it.partitions, it.compacted, it.other) for it in made] == [
        ("orders", False, 2, False, {"cleanup.policy": "delete", "no.such": ""}),
        ("table", True, 4, True, {}),
    ]
    assert cluster.the_admin.settings["table"]["cleanup.policy"] == "compact"
    assert "orders" not in cluster.the_admin.settings


async def test_nothing_is_created_if_one_is_refused() -> None:
    cluster = FakeCluster()
    cluster.the_admin.refusals = {"orders": "no"}
    with pytest.raises(LedgerUnusableError):
        await ops.create_topics(cluster, ["before", "orders", "after"])
    assert cluster.the_admin.topics == {}


async def test_a_refusal_is_the_brokers() -> None:
    cluster = FakeCluster()
    cluster.the_admin.refusals = {"orders": "no"}
    with pytest.raises(LedgerUnusableError):
        await ops.create_topics(cluster, ["orders"])
