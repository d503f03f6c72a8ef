"""The page in a real Chromium, and the document of the REST interface against the service, both from outside.

Beside the browser they need `make .venv/web/.ready`: Playwright, axe and schemathesis have an environment of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import StorageError
from snapkafka.manifest import AppendedEntry
from snapkafka.protocol.completion import LedgerState
from snapkafka.protocol.records import Abort, CheckResult, Trigger, Verdict
from snapkafka.service.app import make_app, openapi
from snapkafka.service.server import serve
from snapkafka.service.settings import Settings
from snapkafka.store import LocalStore
from tests.fakes import FakeCluster, Worker
from tests.unit.on_disk import write_snapshot
from tests.unit.test_drawing import rewrite

ROOT = Path(__file__).parents[2]
WEB = ROOT / ".venv" / "web" / "bin"
SIZES = {"one": 1, "twenty": 20, "hundred": 100}

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


async def nothing(*_: Any, **__: Any) -> Any:
    raise StorageError("a test assembles nothing")


@contextlib.contextmanager
def serving(cluster: FakeCluster, *roots: str, **settings: Any) -> Iterator[str]:
    """The service in a thread of its own; its URL."""
    chosen = Settings(port=0, roots=roots, **settings)
    url: list[str] = []
    loop = asyncio.new_event_loop()
    app = make_app(cluster, "shop", chosen, assemble=nothing, verify=nothing)
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
        yield url[0]
    finally:
        loop.call_soon_threadsafe(task[0].cancel)
        thread.join(30)


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
    store = LocalStore(folder)
    manifest = write_snapshot(store, name, epoch, namespace="shop", messages=messages)
    times = tuple(
        AppendedEntry(offset=e.offset, at_ms=e.timestamp_ms) for e in ledger.entries if e.offset >= epoch
    )
    known = dataclasses.replace(
        manifest.ledger, triggered_ms=ledger.entries[epoch - 1].timestamp_ms, appended=times
    )
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
    Worker(ledger, "slow", "slow-orders", closes=False)
    failed = ledger.put(Trigger(n=1, id="failed", who="a-test")) + 1
    ledger.put(
        Abort(n=2, epoch=failed, code="ttl", reason="not captured within 5000 ms", culprit="process 7")
    )
    ledger.put(Trigger(n=3, id="running", who="a-test", ttl_ms=60_000_000))
    return cluster


def test_the_page_in_a_real_browser(tmp_path: Path) -> None:
    """At 1, 20 and 100 processes, by the keyboard, in both themes; nothing serious by axe; nobody else is asked."""
    with serving(system(tmp_path / "snaps"), str(tmp_path / "snaps")) as url:
        command = [
            str(WEB / "python"),
            str(ROOT / "tests" / "e2e" / "look_at_page.py"),
            url,
            str(tmp_path / "shots"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["columns"] == [
        "Status", "Snapshot", "Triggered", "Duration", "Type", "Parent", "Processes", "In flight", "Size", "Verdict",
        "Restorable until", "Command",
    ]  # fmt: skip
    rows = {row[1].split()[0]: row for row in seen["rows"]}
    assert list(rows) == ["running", "failed", "hundred", "twenty", "one"]
    assert "waits for" in rows["running"][1]
    assert "ttl: not captured within 5000 ms" in rows["failed"][1]
    assert "latest good" in rows["hundred"][1]
    assert [rows[name][6] for name in SIZES] == ["1/1", "20/20", "100/100"]
    assert [seen["details"][name]["points"] for name in SIZES] == [*SIZES.values()]
    assert all(detail["overflow"] <= 0 for detail in seen["details"].values()), seen["details"]
    serious = [found for found in seen["violations"] if found["impact"] in ("serious", "critical")]
    assert not serious, json.dumps(serious, indent=1)
    assert seen["others"] == []
    assert not [line for line in seen["console"] if line.startswith("error")], seen["console"]


def test_the_openapi_document_against_the_service(tmp_path: Path) -> None:
    """schemathesis: every answer is one of the document, and none is a 500.

    Not checked: that whatever fits the schemas is accepted. SQL that is no SELECT fits, and is refused by name.
    """
    document = tmp_path / "openapi.yaml"
    document.write_bytes(openapi().read_bytes())
    cluster = system(tmp_path / "snaps")
    with serving(cluster, str(tmp_path / "snaps"), reads_per_s=100_000, triggers_per_s=100_000) as url:
        command = [str(WEB / "schemathesis"), "run", str(document), "--url", url.rstrip("/"), "--seed", "7"]
        command += ["--max-examples", "25", "--request-timeout", "20", "--exclude-path-regex", "/events$"]
        command += ["--phases", "examples,coverage,fuzzing", "--exclude-checks", "positive_data_acceptance"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=800, cwd=tmp_path)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
