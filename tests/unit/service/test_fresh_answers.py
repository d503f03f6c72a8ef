"""What a client is answered, it sees: routes answer from the offset that the service wrote, or was given, at least.

And a service that hears of no broker reports that, instead of what it knew.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from snapkafka import ops
from snapkafka.errors import LedgerUnusableError
from snapkafka.manifest import Manifest
from snapkafka.protocol import CheckResult, Verdict
from snapkafka.service import LedgerFollower, ledger_follower
from snapkafka.store import LocalStore
from snapkafka.until import until as until_holds
from tests.worlds.fakes import FakeCluster, FakeEntry, FakeLedger, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.service_world import asked, served, until

#: The follower reads each record so much later than others do.
LATE_S: Final = 0.2
FOLLOWS: contextvars.ContextVar[bool] = contextvars.ContextVar("follows", default=False)


@pytest.fixture
def cluster() -> FakeCluster:
    found = FakeCluster()
    Worker(found.the_ledger, "shop", "orders")
    return found


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the follower of the service lag behind its own writes, as a consumer on a busy machine does."""
    follow, read = LedgerFollower._follow, FakeLedger.read

    async def following(self: LedgerFollower) -> None:
        FOLLOWS.set(True)
        await follow(self)

    async def reading(
        self: FakeLedger, start: int = 0, *, until: int | None = None
    ) -> AsyncIterator[FakeEntry]:
        async for entry in read(self, start, until=until):
            if FOLLOWS.get() and until is None:
                await asyncio.sleep(LATE_S)
            yield entry

    monkeypatch.setattr(LedgerFollower, "_follow", following)
    monkeypatch.setattr(FakeLedger, "read", reading)


def offset_of(answer: Any) -> int:
    """Return the offset in the ETag of an answer."""
    found = re.fullmatch(r'W/"(\d+)"', answer.headers["etag"])
    assert found is not None, answer.headers["etag"]
    return int(found[1])


@pytest.mark.usefixtures("late")
def test_a_triggered_snapshot_is_in_every_answer_from_then_on(cluster: FakeCluster) -> None:
    with served(cluster) as client:
        for number in range(3):
            name = f"s{number}"
            triggered = client.post("/v1/snapshots/trigger", json=asked(snapshot_id=name))
            assert triggered.status_code == 202
            listed = client.get("/v1/snapshots")
            assert listed.json()["snapshots"][0]["snapshot_id"] == name
            assert offset_of(listed) >= offset_of(triggered) >= triggered.json()["epoch"]
            assert listed.json()["total"] == number + 1
            with client.stream("GET", "/v1/snapshots/latest/events") as stream:
                assert name in next(line for line in stream.iter_lines() if line.startswith("data: "))


@pytest.mark.usefixtures("late")
def test_another_instance_answers_from_the_offset_that_it_is_given(cluster: FakeCluster) -> None:
    with served(cluster) as one, served(cluster) as two:
        triggered = one.post("/v1/snapshots/trigger", json=asked(snapshot_id="mine"))
        seen = two.get("/v1/snapshots", headers={"Snapkafka-Offset": str(offset_of(triggered))})
        assert [row["snapshot_id"] for row in seen.json()["snapshots"]] == ["mine"]
        for wrong in ("", "-1", "x", "9" * 30, "1.0"):
            refused = two.get("/v1/snapshots", headers={"Snapkafka-Offset": wrong})
            assert (refused.status_code, refused.json()["field"]) == (400, "Snapkafka-Offset")


@pytest.mark.usefixtures("late")
def test_a_job_that_is_done_has_its_verdict_in_the_ledger(cluster: FakeCluster, tmp_path: Path) -> None:
    async def assembles(*_: Any, **__: Any) -> tuple[ops.JobResult, ...]:
        store = LocalStore(tmp_path)
        epoch = max(view for view in (cluster_epochs(cluster)))
        manifest: Manifest = write_snapshot(store, "mine", epoch, namespace="ns")
        checks = (CheckResult(name="V1", status="passed", records=3),)
        place = store.manifest_place("mine")
        cluster.the_ledger.put(
            Verdict(n=9_000, epoch=epoch, verdict=manifest.verdict, checks=checks, manifest=place)
        )
        return (
            ops.JobResult(
                id="mine",
                epoch=epoch,
                verdict=manifest.verdict,
                good=True,
                manifest=place,
                checks=(),
                tables={},
            ),
        )

    with served(cluster, (str(tmp_path),), assemble=assembles) as client:
        body = asked(snapshot_id="mine", target_storage_uri=str(tmp_path))
        client.post("/v1/snapshots/trigger", json=body)
        until(lambda: client.get("/v1/snapshots/mine").json()["status"] == "CAPTURED", "its capture")
        job = client.post("/v1/snapshots/mine/assemble", json={}).json()["job_id"]
        until(lambda: client.get(f"/v1/jobs/{job}").json()["state"] == "done", "the job")
        assert client.get("/v1/snapshots/mine").json()["status"] == "COMPLETED"
        assert client.get("/v1/snapshots").json()["snapshots"][0]["verdict"] == "VERIFIED"


async def test_what_the_ledger_has_lost_is_waited_for_no_more(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_follower, "AGAIN_AFTER_S", 0.01)
    monkeypatch.setattr(ledger_follower, "CATCH_UP_S", 0.5)
    cut, read = asyncio.Event(), FakeLedger.read

    async def reading(
        self: FakeLedger, start: int = 0, *, until: int | None = None
    ) -> AsyncIterator[FakeEntry]:
        if until is None and not cut.is_set():
            await cut.wait()
            raise LedgerUnusableError("the ledger has lost its tail")
        async for entry in read(self, start, until=until):
            yield entry

    monkeypatch.setattr(FakeLedger, "read", reading)
    follower = LedgerFollower(cluster, "ns")
    async with follower.following():
        await until_holds(lambda: follower.followed, 20, "the first reading")
        follower.wrote(follower.reading.state.end + 3)
        first = follower.reading
        cut.set()
        await until_holds(lambda: follower.followed and follower.reading is not first, 20, "the next one")
        await follower.answering_from(0)
        assert follower.end == follower.reading.state.end


def cluster_epochs(cluster: FakeCluster) -> list[int]:
    """Return the epochs of the triggers in the ledger."""
    return [
        offset + 1
        for offset, entry in enumerate(cluster.the_ledger.entries)
        if type(entry.record).__name__ == "Trigger"
    ]


# -- a broker that is silent ---------------------------------------------------------------------------------


@contextmanager
def silent_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Provide an event: until it is set again, the broker answers nothing, and closes no connection."""
    answering, end = threading.Event(), FakeLedger.end
    answering.set()

    async def ends(self: FakeLedger) -> int:
        await asyncio.to_thread(answering.wait)
        return await end(self)

    monkeypatch.setattr(FakeLedger, "end", ends)
    monkeypatch.setattr(ledger_follower, "PROBE_EVERY_S", 0.05)
    monkeypatch.setattr(ledger_follower, "SILENT_S", 0.3)
    try:
        yield answering
    finally:
        answering.set()


def test_readiness_tells_since_when_no_broker_has_answered(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with silent_broker(monkeypatch) as answering, served(cluster) as client:
        assert followed(client) == 1
        answering.clear()
        until(lambda: client.get("/readyz").status_code == 503, "the service to notice")
        told = client.get("/readyz").json()
        assert told["code"] == "broker-unavailable"
        assert re.fullmatch(r"no broker has answered since \d\d:\d\d:\d\d UTC", told["detail"]), told
        assert followed(client) == 0
        with client.stream("GET", "/v1/events") as stream:
            told = next(line for line in stream.iter_lines() if line.startswith("data: "))
            assert '"followed": false' in told and '"problem": "no broker has answered since ' in told
        assert client.get("/healthz").status_code == 200
        answering.set()
        until(lambda: client.get("/readyz").status_code == 200, "the service to notice")
        assert followed(client) == 1


def followed(client: TestClient) -> float:
    """Return what the metrics say about the ledger."""
    found = re.search(r"^snapkafka_service_ledger_followed (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found is not None
    return float(found[1])
