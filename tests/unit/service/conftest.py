"""A cluster in memory on which an app runs."""

import pytest

from tests.worlds.fakes import FakeCluster, Worker


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    Worker(found.the_ledger, "shop", "orders")
    return found
