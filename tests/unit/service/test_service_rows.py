"""Rows of snapshots over REST whose storage does not answer."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from snapkafka.query.stored import stored
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import assembled, served, until


def test_storage_that_hangs_delays_one_list_and_none_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, hangs = FakeCluster(), threading.Event()
    Worker(cluster.the_ledger, "shop", "orders")
    monkeypatch.setattr("snapkafka.service.rows.STORAGE_S", 0.3)
    with served(cluster, (str(tmp_path),), clock=lambda: 10_000_000) as writes:
        for number in range(8):
            assembled(cluster, writes, tmp_path, f"s{number}")

    def late(place: str) -> Any:
        assert hangs.wait(60)
        return stored(place)

    monkeypatch.setattr("snapkafka.service.rows.stored", late)
    try:
        with served(cluster, (str(tmp_path),), clock=lambda: 10_000_000) as client:
            took = []
            for _ in range(3):
                began = time.monotonic()
                found = client.get("/v1/snapshots").json()["snapshots"]
                took.append(time.monotonic() - began)
                assert [row["assembled"] for row in found] == [False] * 8
            assert 0.3 <= took[0] < 0.3 * 4, "all at once, not one after the other"
            assert max(took[1:]) < 0.3, "what does not answer is not waited for again"
            hangs.set()
            until(
                lambda: all(row["assembled"] for row in client.get("/v1/snapshots").json()["snapshots"]),
                "what has come at last",
            )
    finally:
        hangs.set()
