"""The service over a cluster in memory with snapshots of many processes, for a browser."""

import contextlib
import dataclasses
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from anyio.from_thread import start_blocking_portal
from msgspec import structs

from snapkafka import ops
from snapkafka.errors import StorageError
from snapkafka.manifest import AppendedEntry, CheckEntry, Manifest, RestorableEntry, WitnessEntry
from snapkafka.protocol import CheckResult, InputCut, Restore, Verdict
from snapkafka.protocol.records import Abort, Trigger
from tests.unit.drawing.test_drawing import rewrite
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import Row, in_state, write_snapshot
from tests.worlds.service_world import listening
from tests.worlds.stores import LocalStore

SIZES = {"one": 1, "twenty": 20, "hundred": 100}


async def nothing(*_: Any, **__: Any) -> Any:
    raise StorageError("a test assembles nothing")


@contextlib.contextmanager
def serving(
    cluster: FakeCluster, *roots: str, assemble: Callable[..., Awaitable[Any]] = nothing, **settings: Any
) -> Iterator[str]:
    """The service in a thread of its own; its URL."""
    served = listening(cluster, "shop", roots=roots, **settings)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(served) as url,
        patch.multiple(ops, assemble=assemble, verify=nothing, list_forks=forks),
    ):
        yield url


def triggered(cluster: FakeCluster, folder: Path, name: str) -> int:
    """Trigger a snapshot; return its epoch."""
    number = 9_000 + len(cluster.the_ledger.entries)
    trigger = Trigger(n=number, id=name, who="a-test", storage=str(folder), ttl_ms=60_000_000)
    return cluster.the_ledger.put(trigger) + 1


def judged(
    cluster: FakeCluster,
    folder: Path,
    epoch: int,
    *checks: CheckEntry,
    until_ms: int = 86_400_000,
    **rows: Any,
) -> Manifest:
    """Write the tables of a captured snapshot, and put its verdict into the ledger: it fails if there are `checks`. The
    log keeps it for `until_ms`."""
    ledger, store, captured = cluster.the_ledger, LocalStore(folder), cluster.the_ledger.state.captured(epoch)
    verdict = "INCONSISTENT" if checks else "VERIFIED"
    checks = checks or tuple(
        CheckEntry(name=f"V{n}", run=True, status="passed", records=30) for n in range(1, 6)
    )
    until = datetime.fromtimestamp(time.time() + until_ms / 1_000, UTC).isoformat(timespec="seconds")
    manifest = write_snapshot(store, captured.id, epoch, namespace="shop", verdict=verdict, **rows)
    times = tuple(
        AppendedEntry(offset=e.offset, at_ms=e.timestamp_ms) for e in ledger.entries if e.offset >= epoch
    )
    at_ms = ledger.entries[epoch - 1].timestamp_ms
    manifest = dataclasses.replace(
        manifest,
        captured=captured,
        checks=checks,
        ledger=dataclasses.replace(manifest.ledger, triggered_ms=at_ms, appended=times),
        restorable=RestorableEntry(how="until", until=until, topic="orders", partition=0),
    )
    rewrite(store, manifest)
    found = tuple(CheckResult(name=it.name, status=it.status, found=it.found) for it in checks)
    place = store.manifest_place(captured.id)
    ledger.put(Verdict(n=7_000 + epoch, epoch=epoch, verdict=verdict, checks=found, manifest=place))
    return manifest


# -- a system for diagrams ------------------------------------------------------------------------------------


def message(source: InputCut, sender: InputCut, number: int, at: int, **more: Any) -> Row:
    """A row of `messages` or `around`, at so many records from the cut."""
    of = {"topic": source.topic, "partition": source.partition, "offset": source.position + at}
    of |= {"sender": sender.receiver, "sender_app": "shop", "receiver_app": source.app}
    of |= {"key": f"order-{number}"}
    return of | {"value": json.dumps({"order": number, "amount": 3 * number})} | more


def snapshot(cluster: FakeCluster, folder: Path, name: str) -> None:
    """Take a snapshot of the workers, with messages in flight, received before the cut, and sent after it."""
    epoch = triggered(cluster, folder, name)
    inputs = cluster.the_ledger.state.captured(epoch).inputs
    ms = cluster.the_ledger.entries[epoch - 1].timestamp_ms
    messages, around = list[Row](), list[Row]()
    for n, source in enumerate(inputs[:60]):
        if n < 40:
            messages.append(message(source, inputs[n * 7 % len(inputs)], n, n % 3))
        sender, more = inputs[(n * 7 + 1) % len(inputs)], dict[str, Any](receiver=source.receiver, seq=9)
        for at, side, sent in ((-1, "white", n - 900), (9, "red", n + 400)):
            more |= {"side": side, "received": side == "white", "sent_ms": ms + sent}
            around.append(message(source, sender, n, at, **more))
    judged(cluster, folder, epoch, messages=messages, around=around)


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
    why: Any = {"reason": "not captured within 5000 ms", "culprit": "process 7"}
    ledger.put(Abort(n=2, epoch=failed, code="ttl", **why))
    ledger.put(Trigger(n=3, id="running", who="a-test", ttl_ms=60_000_000))
    of: Any = {"snapshot": "twenty", "epoch": 9, "apps": ("billing", "mail"), "who": "anna"}
    restore = Restore(n=4, plan="p1", stage="begun", **of)
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

    def stored(name: str, *checks: CheckEntry, until_ms: int = 86_400_000, **state: str) -> None:
        rows = [in_state(key, value) for key, value in state.items()]
        judged(cluster, folder, triggered(cluster, folder, name), *checks, until_ms=until_ms, state=rows)

    stored("monday", anna="10", ben="7", cleo="1")
    stored("tuesday", anna="10", ben="9", dora="4")
    witness = WitnessEntry(topic="orders", partition=0, offset=3, what="white record after its end")
    failed = CheckEntry(name="V1", run=True, status="failed", found=1, witnesses=(witness,))
    stored("broken", failed, until_ms=-3_600_000)
    triggered(cluster, folder, "captured")
    worker._reports = False
    triggered(cluster, folder, "running")
    return cluster


def assembling(cluster: FakeCluster, folder: Path) -> Callable[..., Awaitable[Any]]:
    """What stands for `ops.assemble`: it writes tables without rows."""

    async def assemble(where: object, spec: ops.JobSpec, notify: Callable[[str], None]) -> Any:
        notify("V1 to V5: every record")
        (epoch,) = map(int, spec.snapshots)
        manifest = judged(cluster, folder, epoch)
        return (SimpleNamespace(verdict=manifest.verdict, manifest="a manifest"),)

    return assemble
