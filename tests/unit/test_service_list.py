"""The list over REST is made once for each record of the ledger, and follows it all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from snapkafka.service import answers
from tests.fakes import FakeCluster, Worker
from tests.unit.service_world import asked, assembled, served, until


def test_a_list_follows_the_ledger_and_is_made_once_for_each_of_its_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    row = answers.row

    def counted(view: Any, *rest: Any, **more: Any) -> dict[str, Any]:
        made.append(view.summary.id)
        return row(view, *rest, **more)

    monkeypatch.setattr(answers, "row", counted)
    cluster, now = FakeCluster(), [10_000_000]
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),), clock=lambda: now[0]) as client:
        assembled(cluster, client, tmp_path, "one")
        first = client.get("/v1/snapshots").json()
        made.clear()
        assert client.get("/v1/snapshots").json() == first
        assert made == []
        assert client.get("/v1/snapshots?limit=1").json()["snapshots"] == first["snapshots"]
        assert made == ["one"]  # another list
        assembled(cluster, client, tmp_path, "two")
        assert [one["snapshot_id"] for one in client.get("/v1/snapshots").json()["snapshots"]] == [
            "two",
            "one",
        ]
        worker._closes = False
        client.post("/v1/snapshots/trigger", json=asked(snapshot_id="runs", target_storage_uri=str(tmp_path)))
        until(lambda: client.get("/v1/snapshots").json()["total"] == 3, "the third")
        lasted = [row["duration_ms"] for row in client.get("/v1/snapshots").json()["snapshots"]]
        now[0] += 500
        later = [row["duration_ms"] for row in client.get("/v1/snapshots").json()["snapshots"]]
        assert later == [lasted[0] + 500, *lasted[1:]]  # a running one goes on without a record
