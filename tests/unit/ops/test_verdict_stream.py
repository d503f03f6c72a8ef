"""`verdicts` and `await_captured`: what schedulers wait for, on a cluster in memory."""

from __future__ import annotations

import asyncio

import pytest

from snapkafka import ops
from snapkafka.errors import SnapshotFailedError, UnknownSnapshotError
from snapkafka.protocol import Abort, Status, Verdict
from tests.worlds.fakes import FakeCluster, Worker


async def captured(cluster: FakeCluster, name: str) -> int:
    """Trigger a snapshot and wait; its epoch."""
    return (await ops.trigger(cluster, "ns", snapshot_id=name, wait=True)).epoch


async def listed(cluster: FakeCluster, start: int | None) -> list[ops.Verified]:
    return [item async for item in ops.verdicts(cluster, "ns", start=start, live=False)]


async def test_verdicts_name_their_snapshot_and_where_to_read_on() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    first, second = await captured(cluster, "a"), await captured(cluster, "b")
    ledger = cluster.the_ledger
    good_at = ledger.put(Verdict(n=1, epoch=first, verdict="VERIFIED", manifest="/snaps/a.json"))
    ledger.put(Verdict(n=2, epoch=second, verdict="INCONSISTENT", manifest="/snaps/b.json"))
    ledger.put(Verdict(n=3, epoch=99, verdict="VERIFIED"))  # of no snapshot of this ledger
    found = await listed(cluster, 0)
    assert [(item.id, item.verdict, item.good, item.manifest) for item in found] == [
        ("a", "VERIFIED", True, "/snaps/a.json"),
        ("b", "INCONSISTENT", False, "/snaps/b.json"),
    ]
    assert found[0].offset == good_at
    assert found[0].triggered_ms < found[0].verified_ms
    assert await listed(cluster, good_at + 1) == found[1:]
    assert await listed(cluster, None) == []


async def test_a_verdict_is_heard_as_it_is_appended() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    epoch = await captured(cluster, "a")
    stream = ops.verdicts(cluster, "ns", start=await cluster.the_ledger.end())
    awaited = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    cluster.the_ledger.put(Verdict(n=1, epoch=epoch, verdict="VERIFIED"))
    found = await asyncio.wait_for(awaited, 5)
    assert (found.id, found.good) == ("a", True)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_waiting_for_a_capture_starts_no_snapshot() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    with pytest.raises(UnknownSnapshotError):
        await ops.await_captured(cluster, "ns", "a")
    await ops.trigger(cluster, "ns", snapshot_id="a")
    found = await ops.await_captured(cluster, "ns", "a")
    assert (found.id, found.status) == ("a", Status.CAPTURED)


async def test_waiting_for_one_that_failed_reports_why() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders", reports=False)
    epoch = (await ops.trigger(cluster, "ns", snapshot_id="a")).epoch
    cluster.the_ledger.put(Abort(n=1, epoch=epoch, code="ttl", reason="nobody answered"))
    with pytest.raises(SnapshotFailedError, match="nobody answered"):
        await ops.await_captured(cluster, "ns", "a")
