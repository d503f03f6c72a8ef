"""The verbs, on a cluster in memory."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from snapkafka import ops
from snapkafka.errors import (
    BadInputError,
    LedgerUnusableError,
    SnapshotFailedError,
    TriggerRefusedError,
    UnknownSnapshotError,
)
from snapkafka.ops import pruning, snapshots
from snapkafka.ports import Topic
from snapkafka.protocol import Hello, Status, Verdict
from snapkafka.protocol.records import Abort, Bye, Checkpoint, Dead, LedgerRecord, Trigger
from snapkafka.until import pause_after
from snapkafka.wire import encode
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

Kind = TypeVar("Kind")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


class Paused(list[tuple[int, float]]):
    """The pauses before retries: number and length; a process that answers comes back in the `back`th."""

    back = 0


@pytest.fixture
def paused(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Paused:
    """Pauses that take no time; a process runs that never answers."""
    found = Paused()
    Worker(cluster.the_ledger, "shop", "orders", reports=False)

    def pause(attempt: int, share: float, **bounds: float) -> float:
        found.append((attempt, pause_after(attempt, share, **bounds)))
        if len(found) == found.back:
            Worker(cluster.the_ledger, "shop", "orders")
        return 0

    monkeypatch.setattr(snapshots, "pause_after", pause)
    return found


def records(cluster: FakeCluster, kind: type[Kind]) -> list[Kind]:
    return [entry.record for entry in cluster.the_ledger.entries if isinstance(entry.record, kind)]


# -- trigger -------------------------------------------------------------------------------------------------


async def test_what_takes_too_long_is_aborted_and_fails_until_it_is_retried(cluster: FakeCluster) -> None:
    """R12: a snapshot not captured in `ttl_ms` is aborted by whoever notices, who appends `Dead(p)`, so that the next
    one does not wait for it."""
    Worker(cluster.the_ledger, "shop", "orders")
    silent = Worker(cluster.the_ledger, "tills", "sales", reports=False)
    for _ in range(2):
        with pytest.raises(SnapshotFailedError):
            await ops.trigger(cluster, "ns", snapshot_id="s", ttl_ms=100, wait=True, retries=0)
    (abort,) = records(cluster, Abort)
    assert abort.code == "ttl" and f"process {silent.process}" in abort.culprit
    assert [dead.dead for dead in records(cluster, Dead)] == [silent.process]
    Worker(cluster.the_ledger, "tills", "sales")
    retried = await ops.trigger(cluster, "ns", snapshot_id="s", retries=1, wait=True)
    assert (retried.attempt, retried.status) == (2, Status.CAPTURED)
    assert await ops.trigger(cluster, "ns", snapshot_id="s", retries=1) == retried
    with pytest.raises(BadInputError):
        await ops.trigger(cluster, "ns", retries=1)


async def test_an_alignment_that_takes_too_long_is_followed_by_an_ordinary_snapshot(
    cluster: FakeCluster, paused: Paused
) -> None:
    paused.back = 1
    options: dict[str, Any] = {"ttl_ms": 900, "align_timeout_ms": 100, "retries": 0, "wait": True}
    found = await ops.trigger(cluster, "ns", snapshot_id="s", **options)
    assert (found.attempt, found.status) == (2, Status.CAPTURED)
    asked = [(trigger.align, trigger.ttl_ms) for trigger in records(cluster, Trigger)]
    assert asked == [(True, 100), (False, 900)]
    with pytest.raises(BadInputError):
        await ops.trigger(cluster, "ns", align_timeout_ms=100)


async def test_who_waits_may_ask_for_retries_with_growing_pauses(
    cluster: FakeCluster, paused: Paused
) -> None:
    """R1: a retry is the next attempt, a fresh epoch. One that finds nobody is one, too: a process that died while its
    snapshot ran may be back for the third attempt, not for the second."""
    paused.back, seen = 3, list[ops.CaptureProgress]()
    with pytest.raises(TriggerRefusedError):
        await ops.trigger(
            cluster, "ns", snapshot_id="s", ttl_ms=100, wait=True, retries=1, progress=seen.append
        )
    assert [wait.text for wait in seen[-1].waits] == ["attempt 2, in 0.0 s"]
    Worker(cluster.the_ledger, "shop", "orders", reports=False)
    found = await ops.trigger(cluster, "ns", snapshot_id="s", ttl_ms=100, wait=True, retries=3)
    assert (found.attempt, found.status) == (3, Status.CAPTURED)
    assert len({trigger.n for trigger in records(cluster, Trigger)}) == 3
    assert [attempt for attempt, _ in paused] == [1, 2, 2]
    assert all(half <= pause <= 2 * half for half, (_, pause) in zip((0.5, 1, 1), paused, strict=True))


@pytest.mark.usefixtures("paused")
@pytest.mark.parametrize(("code", "attempts"), [("send-failed", 4), ("by-hand", 1)])
async def test_who_waits_tries_again_what_failed_by_something_that_passes(
    cluster: FakeCluster, code: str, attempts: int
) -> None:
    """R1: three times, if nobody says otherwise."""

    def abort(offset: int, record: LedgerRecord) -> None:
        if isinstance(record, Trigger):
            cluster.the_ledger.put(Abort(n=offset, epoch=offset + 1, code=code, reason="it failed"))

    cluster.the_ledger.listeners.append(abort)
    with pytest.raises(SnapshotFailedError):
        await ops.trigger(cluster, "ns", wait=True)
    assert len(records(cluster, Trigger)) == attempts


# -- list and show -------------------------------------------------------------------------------------------


async def test_shown_by_a_moment_is_the_last_one_captured_by_then(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    one = await ops.trigger(cluster, "ns", snapshot_id="one", wait=True)
    two = await ops.trigger(cluster, "ns", snapshot_id="two", wait=True)
    Worker(cluster.the_ledger, "tills", "sales", reports=False)
    cluster.the_ledger.put(Hello(n=9, app="tills", missing=("to-pay",)))
    running = await ops.trigger(cluster, "ns", snapshot_id="running")
    assert len((await ops.show(cluster, "ns", "running")).unread) == 1

    async def shown(at_ms: int) -> str:
        return (await ops.show(cluster, "ns", at_ms=at_ms)).id

    assert one.capture_ms is not None
    captured_ms = one.triggered_ms + one.capture_ms
    assert await shown(captured_ms) == await shown(two.triggered_ms) == "one"
    assert await shown(running.triggered_ms + 60_000) == "two"
    cluster.the_ledger.put(Trigger(n=9, id=str(one.epoch)))
    assert (await ops.show(cluster, "ns", str(one.epoch))).id == "one", "whatever ids there are"
    for unknown in (shown(captured_ms - 1), ops.show(cluster, "ns", "4711")):
        with pytest.raises(UnknownSnapshotError):
            await unknown
    for name, at_ms in (("", None), ("s", 0)):
        with pytest.raises(BadInputError):
            await ops.show(cluster, "ns", name, at_ms=at_ms)


async def test_why_nobody_can_prove_a_snapshot_is_shown(cluster: FakeCluster, tmp_path: Path) -> None:
    """As the ledger has it; or as its assembly found it: who reads the log then may know more."""
    worker, store = Worker(cluster.the_ledger, "shop", "orders", sends=("bills",)), LocalStore(tmp_path)
    one = await ops.trigger(cluster, "ns", snapshot_id="one", wait=True)
    worker.recreated = True
    await ops.trigger(cluster, "ns", snapshot_id="two", wait=True)
    found = write_snapshot(store, "one", one.epoch)
    store.publish(replace(found, captured=replace(found.captured, contaminated="it ran")), "other")
    verdict = Verdict(n=9, epoch=one.epoch, verdict="UNVERIFIABLE", manifest=store.manifest_place("one"))
    cluster.the_ledger.put(verdict)
    shown = [str((await ops.show(cluster, "ns", it)).contaminated) for it in ("one", "two")]
    assert shown[0] == "it ran" and "bills was recreated" in shown[1]


async def test_a_ledger_that_is_not_there_or_was_trimmed_by_hand_is_not_read(cluster: FakeCluster) -> None:
    cluster.the_ledger.exists = False
    with pytest.raises(LedgerUnusableError):
        await ops.list_snapshots(cluster, "ns")
    cluster.the_ledger.exists = True
    Worker(cluster.the_ledger, "shop", "orders")
    await cluster.the_ledger.trim(1)
    with pytest.raises(LedgerUnusableError):
        await ops.list_snapshots(cluster, "ns")


# -- pause, resume, retire -----------------------------------------------------------------------------------


async def test_a_pause_aborts_what_is_under_way_and_refuses_what_comes(cluster: FakeCluster) -> None:
    """R15: an off switch without a restart."""
    Worker(cluster.the_ledger, "shop", "orders", reports=False)
    running = await ops.trigger(cluster, "ns", snapshot_id="running")
    found = await ops.pause(cluster, "ns")
    assert (found.paused, found.changed, found.aborted) == (True, True, ("running",))
    with pytest.raises(SnapshotFailedError):
        await ops.trigger(cluster, "ns", snapshot_id=running.id)
    with pytest.raises(TriggerRefusedError):
        await ops.trigger(cluster, "ns")
    again = await ops.pause(cluster, "ns")
    assert (again.paused, again.changed, again.aborted) == (True, False, ())


async def test_an_app_that_is_gone_for_good_is_waited_for_no_more(cluster: FakeCluster) -> None:
    """R10: an app can be retired."""
    Worker(cluster.the_ledger, "shop", "orders")
    gone = Worker(cluster.the_ledger, "tills", "sales")
    with pytest.raises(BadInputError):
        await ops.retire(cluster, "ns", "tills")
    cluster.the_ledger.put(Bye(process=gone.process, n=99))
    view = await ops.trigger(cluster, "ns", ttl_ms=100)
    assert view.status is not Status.CAPTURED, "the inputs of an app that does not run are waited for"
    found = await ops.retire(cluster, "ns", "tills")
    assert (found.retired, found.changed, found.paused) == (("tills",), True, None), "it speaks of no pause"
    assert not (await ops.retire(cluster, "ns", "tills")).changed
    assert (await ops.trigger(cluster, "ns", wait=True)).status is Status.CAPTURED
    with pytest.raises(BadInputError):
        await ops.retire(cluster, "ns", "nobody")


# -- checkpoint ----------------------------------------------------------------------------------------------


async def test_after_a_checkpoint_everybody_says_the_same_and_goes_on(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice, as the second ledger begins with a checkpoint itself. Its chunks are no larger than the ledger takes, and
    what is young stays: who reads, and is not that far behind, misses nothing."""
    monkeypatch.setattr(pruning, "RECORD_BYTES_MAX", 1_000)
    ledger = cluster.the_ledger
    for n in range(9):
        Worker(ledger, f"app-{n}", "orders", partitions=4)
    young = ledger.clock_ms
    for name in ("a", "b"):
        await ops.trigger(cluster, "ns", snapshot_id=name, wait=True)
    await ops.pause(cluster, "ns")
    for now_ms, keep_ms in (
        (young + pruning.KEEP_MS, pruning.KEEP_MS),
        (young + 10**9, 0),
        (young + 10**9, 0),
    ):
        before, end = await ops.list_snapshots(cluster, "ns"), len(ledger.entries)
        found = await ops.checkpoint(cluster, "ns", now_ms=now_ms, keep_ms=keep_ms)
        assert found.upto == ledger.first == (end if keep_ms == 0 else 18)
        assert 0 < found.kept <= end and 1 < found.chunks == len(ledger.entries) - end
        assert await ops.list_snapshots(cluster, "ns") == before
        again = await ops.checkpoint(cluster, "ns", now_ms=young)
        assert (again.upto, again.records, ledger.first) == (0, 0, found.upto)
    assert all(len(encode(chunk)) <= 1_000 for chunk in records(cluster, Checkpoint))
    with pytest.raises(TriggerRefusedError):
        await ops.trigger(cluster, "ns")
    await ops.resume(cluster, "ns")
    assert (await ops.trigger(cluster, "ns", snapshot_id="c", wait=True)).status is Status.CAPTURED
    taken = await ops.trigger(cluster, "ns", snapshot_id="a")
    assert taken.epoch == before[0].epoch, "its name stays taken"


# -- verdicts, and the wait for a capture --------------------------------------------------------------------


async def listed(cluster: FakeCluster, start: int | None) -> list[ops.Verified]:
    return [item async for item in ops.verdicts(cluster, "ns", start=start, live=False)]


async def test_verdicts_name_their_snapshot_and_where_to_read_on(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    first, second = [(await ops.trigger(cluster, "ns", snapshot_id=name, wait=True)).epoch for name in "ab"]
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
    stream = ops.verdicts(cluster, "ns", start=await ledger.end())
    awaited = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    third = (await ops.trigger(cluster, "ns", snapshot_id="c", wait=True)).epoch
    ledger.put(Verdict(n=4, epoch=third, verdict="VERIFIED"))
    heard = await asyncio.wait_for(awaited, 5)
    assert (heard.id, heard.good) == ("c", True)
    await stream.aclose()  # type: ignore[attr-defined]


async def test_waiting_for_a_capture_starts_no_snapshot_and_reports_a_failure(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    with pytest.raises(UnknownSnapshotError):
        await ops.await_captured(cluster, "ns", "a")
    await ops.trigger(cluster, "ns", snapshot_id="a")
    found = await ops.await_captured(cluster, "ns", "a")
    assert (found.id, found.status) == ("a", Status.CAPTURED)
    Worker(cluster.the_ledger, "tills", "sales", reports=False)
    epoch = (await ops.trigger(cluster, "ns", snapshot_id="b")).epoch
    cluster.the_ledger.put(Abort(n=1, epoch=epoch, code="ttl", reason="nobody answered"))
    with pytest.raises(SnapshotFailedError, match="nobody answered"):
        await ops.await_captured(cluster, "ns", "b")


# -- topics --------------------------------------------------------------------------------------------------


async def test_what_exists_stays_as_it_is_and_needs_as_many_partitions(cluster: FakeCluster) -> None:
    cluster.the_admin.topics = {"orders": Topic(2)}
    names, settings = ["orders", "table"], {"cleanup.policy": "compact"}
    with pytest.raises(BadInputError, match="4: topic orders exists with 2"):
        await ops.create_topics(cluster, names, partitions=4, settings=settings)
    assert "table" not in cluster.the_admin.topics
    made = await ops.create_topics(cluster, names, partitions=2, settings=settings)
    assert [(it.topic, it.created) for it in made] == [("orders", False), ("table", True)]
    assert cluster.the_admin.settings == {"table": settings}

    cluster.the_admin.refusals = {"no": "no"}
    with pytest.raises(LedgerUnusableError):
        await ops.create_topics(cluster, ["before", "no", "after"], partitions=2)
    assert [*cluster.the_admin.topics] == names, "nothing is, if one is refused"
