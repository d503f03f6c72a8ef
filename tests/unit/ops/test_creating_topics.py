"""`topics create`: what is created, and what stays as it is."""

from __future__ import annotations

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, LedgerUnusableError
from snapkafka.ports import Topic
from tests.worlds.fakes import FakeCluster


async def test_what_exists_stays_as_it_is_and_needs_as_many_partitions() -> None:
    cluster = FakeCluster()
    cluster.the_admin.topics = {"orders": Topic(2)}
    names, settings = ["orders", "table"], {"cleanup.policy": "compact"}
    with pytest.raises(BadInputError):
        await ops.create_topics(cluster, names, partitions=4, settings=settings)
    assert "table" not in cluster.the_admin.topics
    made = await ops.create_topics(cluster, names, partitions=2, settings=settings)
    assert [(it.topic, it.created) for it in made] == [("orders", False), ("table", True)]
    assert cluster.the_admin.settings == {"table": settings}


async def test_nothing_is_created_if_one_is_refused() -> None:
    cluster = FakeCluster()
    cluster.the_admin.refusals = {"orders": "no"}
    with pytest.raises(LedgerUnusableError):
        await ops.create_topics(cluster, ["before", "orders", "after"])
    assert cluster.the_admin.topics == {}
