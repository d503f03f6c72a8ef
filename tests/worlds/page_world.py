"""The service over a cluster in memory with snapshots of many processes, for a browser."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from msgspec import structs

from snapkafka import ops
from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest
from snapkafka.manifest_entries import AppendedEntry, CheckEntry, RestorableEntry, WitnessEntry
from snapkafka.protocol import Abort, CheckResult, InputCut, LedgerState, Restore, Trigger, Verdict
from snapkafka.service import Settings, make_app, serve
from tests.unit.drawing.test_drawing import rewrite
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import Row, in_state, write_snapshot
from tests.worlds.stores import LocalStore

SIZES = {"one": 1, "twenty": 20, "hundred": 100}


async def nothing(*_: Any, **__: Any) -> Any:
    raise StorageError("a test assembles nothing")


@contextlib.contextmanager
def serving(
    cluster: FakeCluster, *roots: str, assemble: Callable[..., Awaitable[Any]] = nothing, **settings: Any
) -> Iterator[str]:
    """The service in a thread of its own; its URL."""
    chosen = Settings(port=0, roots=roots, **settings)
    url: list[str] = []
    loop = asyncio.new_event_loop()
    app = make_app(cluster, "shop", chosen)
    task: list[asyncio.Task[None]] = []

    async def run() -> None:
        task.append(asyncio.ensure_future(serve(app, chosen, url.append)))
        with contextlib.suppress(asyncio.CancelledError):
            await task[0]

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not url:
            assert time.monotonic() < deadline and thread.is_alive(), "the service did not listen"
            time.sleep(0.05)
        with patch.multiple(ops, assemble=assemble, verify=nothing, list_forks=forks):
            yield url[0]
    finally:
        loop.call_soon_threadsafe(task[0].cancel)
        thread.join(30)


def about(source: InputCut, sender: int, triggered_ms: int, number: int) -> list[dict[str, Any]]:
    """Rows of `around` for an input: a message received before the cut, and one sent after it."""
    shared = {"sender": sender, "sender_app": "shop", "receiver_app": source.app, "receiver": source.receiver}
    shared |= {"topic": source.topic, "partition": source.partition, "key": f"order-{number}"}
    shared |= {"value": json.dumps({"order": number, "amount": 3 * number}), "seq": 9}
    early = {"offset": source.position - 1, "side": "white", "received": True}
    late = {"offset": source.position + 9, "side": "red", "received": False}
    return [
        shared | early | {"sent_ms": triggered_ms - 900 + number},
        shared | late | {"sent_ms": triggered_ms + 400 + number},
    ]


def snapshot(cluster: FakeCluster, folder: Path, name: str) -> None:
    """Take a snapshot of the workers, write its tables with messages in flight, and give it a verdict."""
    ledger = cluster.the_ledger
    trigger = Trigger(n=9_000 + len(ledger.entries), id=name, who="a-test", storage=str(folder))
    epoch = ledger.put(trigger) + 1
    state = LedgerState()
    for entry in ledger.entries:
        state.apply(entry.offset, entry.record)
    captured = state.captured(epoch)
    messages = [
        {
            "sender": captured.inputs[(number * 7) % len(captured.inputs)].receiver,
            "sender_app": "shop",
            "receiver_app": source.app,
            "topic": source.topic,
            "partition": source.partition,
            "offset": source.position + number % 3,
            "key": f"order-{number}",
            "value": json.dumps({"order": number, "amount": 3 * number}),
        }
        for number, source in enumerate(captured.inputs[:40])
    ]
    triggered_ms = ledger.entries[epoch - 1].timestamp_ms
    around = [
        row
        for number, source in enumerate(captured.inputs[:60])
        for row in about(
            source, captured.inputs[(number * 7 + 1) % len(captured.inputs)].receiver, triggered_ms, number
        )
    ]
    store = LocalStore(folder)
    manifest = write_snapshot(store, name, epoch, namespace="shop", messages=messages, around=around)
    times = tuple(
        AppendedEntry(offset=e.offset, at_ms=e.timestamp_ms) for e in ledger.entries if e.offset >= epoch
    )
    known = dataclasses.replace(manifest.ledger, triggered_ms=triggered_ms, appended=times)
    rewrite(store, dataclasses.replace(manifest, captured=captured, ledger=known))
    checks = tuple(CheckResult(name=f"V{n}", status="passed", records=30) for n in range(1, 6))
    ledger.put(
        Verdict(
            n=7_000 + epoch,
            epoch=epoch,
            verdict="VERIFIED",
            checks=checks,
            manifest=store.manifest_place(name),
        )
    )


def system(folder: Path) -> FakeCluster:
    """Snapshots of 1, 20 and 100 processes, one that failed and one that is running."""
    cluster, started = FakeCluster(), 0
    ledger = cluster.the_ledger
    ledger.clock_ms = int(time.time() * 1_000) - 600_000
    for name, processes in SIZES.items():
        for number in range(started, processes):
            Worker(ledger, f"shop-{number % 4}", f"orders-{number}")
        started = processes
        snapshot(cluster, folder, name)
    Worker(ledger, "slow", "slow-orders", reports=False, member="slow-1")
    Worker(ledger, "slow", "slow-payments", reports=False, member="slow-2")
    failed = ledger.put(Trigger(n=1, id="failed", who="a-test")) + 1
    ledger.put(
        Abort(n=2, epoch=failed, code="ttl", reason="not captured within 5000 ms", culprit="process 7")
    )
    ledger.put(Trigger(n=3, id="running", who="a-test", ttl_ms=60_000_000))
    restore = Restore(
        n=4, plan="p1", stage="begun", snapshot="twenty", epoch=9, apps=("billing", "mail"), who="anna"
    )
    ledger.put(restore)
    ledger.put(Restore(n=5, plan="p1", stage="aborted", reason="a worker joined"))
    again = dataclasses.replace(restore, n=6, plan="p2")
    ledger.put(again)
    ledger.put(dataclasses.replace(again, n=7, author=77))
    return cluster


async def forks(*_: Any) -> tuple[ops.Fork, ...]:
    """A drill that runs, and a fork that has expired."""
    now = int(time.time() * 1_000)
    drill = ops.Fork(
        fork="drill-7", namespace="drill-7.shop", source="shop", stage="ready", snapshot="hundred", epoch=9, plan="p3",
        apps=("drill-7.shop-0", "drill-7.shop-1"), topics=("drill-7.orders-0",), created_ms=now - 60_000,
        expires_ms=now + 3_600_000, who="anna",
    )  # fmt: skip
    return drill, structs.replace(drill, fork="try", expires_ms=now - 1_000, who="ben")


# -- a small system, for what people do with the page ---------------------------------------------------------


def small_system(folder: Path) -> FakeCluster:
    """Two verified snapshots whose tables differ, one that the log contradicts and that is expired, one that is
    captured, one that runs."""
    cluster = FakeCluster()
    ledger = cluster.the_ledger
    ledger.clock_ms = int(time.time() * 1_000) - 600_000
    worker = Worker(ledger, "bank", "orders")
    stored(cluster, folder, "monday", [in_state("anna", "10"), in_state("ben", "7"), in_state("cleo", "1")])
    stored(cluster, folder, "tuesday", [in_state("anna", "10"), in_state("ben", "9"), in_state("dora", "4")])
    witness = WitnessEntry(topic="orders", partition=0, offset=3, what="white record after its end")
    stored(
        cluster,
        folder,
        "broken",
        [],
        CheckEntry(name="V1", run=True, status="failed", found=1, witnesses=(witness,)),
        until_ms=-3_600_000,
    )
    triggered(cluster, folder, "captured")
    worker._reports = False
    triggered(cluster, folder, "running")
    return cluster


def triggered(cluster: FakeCluster, folder: Path, name: str) -> int:
    """Trigger a snapshot; return its epoch."""
    number = 9_000 + len(cluster.the_ledger.entries)
    return (
        cluster.the_ledger.put(
            Trigger(n=number, id=name, who="a-test", storage=str(folder), ttl_ms=60_000_000)
        )
        + 1
    )


def stored(
    cluster: FakeCluster,
    folder: Path,
    name: str,
    state: Sequence[Row],
    *checks: CheckEntry,
    until_ms: int = 86_400_000,
) -> int:
    """Take a snapshot and write its tables; it fails by its checks, if there are any. Return its epoch."""
    epoch = triggered(cluster, folder, name)
    judge(cluster, folder, name, epoch, state, checks, until_ms=until_ms)
    return epoch


def judge(
    cluster: FakeCluster,
    folder: Path,
    name: str,
    epoch: int,
    state: Sequence[Row],
    checks: Sequence[CheckEntry],
    *,
    until_ms: int = 86_400_000,
) -> Manifest:
    """Write the tables of a captured snapshot, and put its verdict into the ledger. The log keeps it for `until_ms`."""
    ledger, store = cluster.the_ledger, LocalStore(folder)
    verdict = "INCONSISTENT" if any(check.status == "failed" for check in checks) else "VERIFIED"
    checks = checks or [CheckEntry(name=f"V{n}", run=True, status="passed", records=30) for n in range(1, 6)]
    until = datetime.fromtimestamp(time.time() + until_ms / 1_000, UTC).isoformat(timespec="seconds")
    manifest = dataclasses.replace(
        write_snapshot(store, name, epoch, namespace="shop", verdict=verdict, state=state),
        checks=tuple(checks),
        restorable=RestorableEntry(how="until", until=until, topic="orders", partition=0),
    )
    rewrite(store, manifest)
    ledger.put(
        Verdict(
            n=7_000 + epoch,
            epoch=epoch,
            verdict=verdict,
            checks=tuple(CheckResult(name=it.name, status=it.status, found=it.found) for it in checks),
            manifest=store.manifest_place(name),
        )
    )
    return manifest


def assembling(cluster: FakeCluster, folder: Path) -> Callable[..., Awaitable[Any]]:
    """What stands for `ops.assemble`: it writes tables without rows."""

    async def assemble(where: object, spec: ops.JobSpec, notify: Callable[[str], None]) -> Any:
        notify("V1 to V5: every record")
        (epoch,) = map(int, spec.snapshots)
        state = LedgerState()
        for entry in cluster.the_ledger.entries:
            state.apply(entry.offset, entry.record)
        manifest = judge(cluster, folder, state.snapshots[epoch].trigger.id, epoch, [], ())
        return (SimpleNamespace(verdict=manifest.verdict, manifest="a manifest"),)

    return assemble
