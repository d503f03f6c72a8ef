"""A cluster in memory on which an app runs, and a client of the service over it."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import served


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    Worker(found.the_ledger, "shop", "orders")
    return found


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[TestClient]:
    with served(cluster) as client:
        yield client
