"""What is told of a decided snapshot over REST is made once, and follows the ledger all the same."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from snapkafka.kafka import LedgerReading
from snapkafka.protocol import OUT_OF_ORDER, Abort, LedgerRecord
from snapkafka.query.stored import stored
from snapkafka.service import LedgerFollower, answers
from tests.sim.ledgers import ledger
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served, until


class Made:
    """Names of the snapshots of which a row was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        row = answers.row

        def counted(view: Any, *rest: Any, **more: Any) -> dict[str, Any]:
            self.names.append(view.summary.id)
            return row(view, *rest, **more)

        monkeypatch.setattr(answers, "row", counted)

    def taken(self) -> list[str]:
        names, self.names = self.names, []
        return names


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


def test_a_decided_snapshot_is_described_once_and_a_running_one_each_time(tmp_path: Path, made: Made) -> None:
    cluster, now = FakeCluster(), [10_000_000]
    worker = Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(tmp_path),), clock=lambda: now[0]) as client:

        def rows(query: str = "") -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = client.get(f"/v1/snapshots{query}").json()["snapshots"]
            return found

        assembled(cluster, client, tmp_path, "one")
        first = rows()
        one = client.get("/v1/snapshots/one").json()
        made.taken()
        assert (rows(), rows("?limit=1"), client.get("/v1/snapshots/one").json()) == (first, first, one)
        assert made.taken() == []
        assembled(cluster, client, tmp_path, "two")
        assert [(row["snapshot_id"], row["latest_good"]) for row in rows()] == [("two", True), ("one", False)]
        assert client.get("/v1/snapshots/one").json()["latest_good"] is False
        epoch = one["epoch"]
        cluster.the_ledger.put(Abort(n=9_000, epoch=epoch, code=OUT_OF_ORDER, reason="it was overtaken"))
        until(lambda: rows()[1]["contaminated"] == "it was overtaken", "it to be accused")
        assert client.get("/v1/snapshots/one").json()["contaminated"] == "it was overtaken"
        worker._closes = False
        client.post("/v1/snapshots/trigger", json=asked(snapshot_id="runs", target_storage_uri=str(tmp_path)))
        until(lambda: len(rows()) == 3, "the third")
        made.taken()
        lasted = [row["duration_ms"] for row in rows()]
        now[0] += 500
        assert [row["duration_ms"] for row in rows()] == [lasted[0] + 500, *lasted[1:]]
        assert made.taken() == ["runs", "runs"]


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


def test_what_is_reported_a_snapshot_follows_from_its_basis() -> None:
    """Along random ledgers with deaths, verdicts, aborts, pauses, restores: as long as the basis stays, so does all
    that is told. Decided snapshots do change, and most records leave them as they are."""
    kept = changed = 0
    for seed in range(10):
        follower = LedgerFollower(FakeCluster(), "ns", lambda: 0)
        follower._last = reading = LedgerReading("ledger")
        shown: dict[int, tuple[object, object]] = {}
        for offset, record in enumerate(ledger(seed)):
            reading.apply(_At(offset, record))
            for epoch, view in reading.state.snapshots.items():
                if (basis := follower.basis(view)) is None:
                    continue
                viewed, details = follower.view(view), follower.details(view)
                whole = answers.detail(viewed, details, None, None, latest_good=None, now_ms=0)
                before = shown.get(epoch)
                if before is not None and before[0] == basis:
                    assert whole == before[1], (seed, record)
                    kept += 1
                elif before is not None:
                    changed += whole != before[1]
                shown[epoch] = basis, whole
    assert kept > 1_000
    assert changed > 10


@dataclasses.dataclass(frozen=True)
class _At:
    offset: int
    record: LedgerRecord | None
    refused: bool = False
    states: LedgerRecord | None = None

    @property
    def timestamp_ms(self) -> int:
        return self.offset
