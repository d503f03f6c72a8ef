"""The page in a real Chromium, and the document of the REST interface against the service, both from outside.

Beside the browser they need `make .venv/web/.ready`: Playwright, axe and schemathesis have an environment of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import StorageError
from snapkafka.manifest import AppendedEntry
from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import Abort, CheckResult, Restore, Trigger, Verdict
from snapkafka.service.app import make_app, openapi
from snapkafka.service.server import serve
from snapkafka.service.settings import Settings
from snapkafka.store import LocalStore
from tests.unit.drawing.test_drawing import rewrite
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot

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
    app = make_app(cluster, "shop", chosen, assemble=nothing, verify=nothing, list_forks=forks)
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


def about(source: InputCut, sender: int, triggered_ms: int, number: int) -> list[dict[str, Any]]:
    """Rows of `around` for an input: a message received before the cut, and one sent after it, each fifth of which is
    received by a clock that is far behind."""
    shared = {"sender": sender, "sender_app": "shop", "receiver_app": source.app, "receiver": source.receiver}
    shared |= {"topic": source.topic, "partition": source.partition, "key": f"order-{number}"}
    shared |= {"value": json.dumps({"order": number, "amount": 3 * number}), "seq": 9}
    early = {"offset": source.position - 1, "side": "white", "received": True}
    late = {"offset": source.position + 9, "side": "red", "received": False}
    behind = 500 if number % 5 == 0 else -500
    return [
        shared | early | {"sent_ms": triggered_ms - 900 + number, "received_ms": triggered_ms - 700 + number},
        shared
        | late
        | {"sent_ms": triggered_ms + 400 + number, "received_ms": triggered_ms - behind + number},
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
    Worker(ledger, "slow", "slow-orders", closes=False, member="slow-1")
    Worker(ledger, "slow", "slow-orders", closes=False, member="slow-2")
    cluster.the_admin.ids_of_members["slow"] = ("slow-2",)
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
    again = dataclasses.replace(restore, n=6, plan="p2", only='{"apps": ["mail"]}')
    ledger.put(again)
    ledger.put(dataclasses.replace(again, n=7, author=77, phase="state", records=30_123, total=90_456))
    return cluster


async def forks(*_: Any) -> tuple[ops.Fork, ...]:
    """A drill that runs, and a fork that has expired."""
    now = int(time.time() * 1_000)
    drill = ops.Fork(
        fork="drill-7", namespace="drill-7.shop", source="shop", stage="ready", snapshot="hundred", epoch=9, plan="p3",
        apps=("drill-7.shop-0", "drill-7.shop-1"), topics=(("drill-7.orders-0", "ab"),), created_ms=now - 60_000,
        expires_ms=now + 3_600_000, who="anna",
    )  # fmt: skip
    return drill, dataclasses.replace(drill, fork="try", expires_ms=now - 1_000, who="ben")


def test_the_page_in_a_real_browser(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """At 1, 20 and 100 processes, by the keyboard, in both themes; nothing serious by axe; nobody else is asked."""
    with serving(system(tmp_path / "snaps"), str(tmp_path / "snaps")) as url:
        command = [
            str(WEB / "python"),
            str(ROOT / "tests" / "e2e" / "look_at_page.py"),
            url,
            str(tmp_path / "shots"),
            "lost",
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
    lost = r"Kafka session over: process \d+ \(slow on box, pid 7\); the next snapshot waits for it .*"
    assert re.fullmatch(lost, seen["sessions"]), seen["sessions"]
    assert [rows[name][6] for name in SIZES] == ["1/1", "20/20", "100/100"]
    assert [seen["details"][name]["points"] for name in SIZES] == [*SIZES.values()]
    for name, processes in SIZES.items():
        wall = seen["details"][name]["wall"]
        assert wall["read"] == processes
        crossing = "received and not sent, sum of amount" in " ".join(wall["text"])
        assert (wall["backward"] > 0) is crossing, wall["text"]
    assert seen["details"]["twenty"]["wall"]["backward"] > 0
    if pytestconfig.getoption("--rewrite"):
        for name in ("twenty", "hundred"):
            picture = f"page-{name}.png"
            (ROOT / "docs" / "guide" / picture).write_bytes((tmp_path / "shots" / picture).read_bytes())
    found = seen["gestures"]
    assert (found["hidden"], found["collapsed"], found["points"]) == (1, ["shop-1, 5 processes"], 19)
    assert len(found["filtered"]) == 3
    assert all("order-7" in title for title in found["filtered"])
    assert found["left"] == "hidden here: lines 1, messages 57"
    assert found["traced"] >= 1
    assert "snapkafka trace orders-7 0" in found["chain"]
    assert found["again"] == 0
    assert found["height"][0] == found["height"][1]
    assert "is not drawn" in found["witness"]
    assert found["catalog"] == ["around", "channels", "messages", "positions", "processes", "state"]
    found = seen["glyphs"]
    assert found["near"] > 50
    assert found["near"] * 0.9 < found["halves"] <= found["near"], "all but those whose ends are close"
    assert found["pointed"] == found["halves"] - 1
    assert found["left"] == found["again"] == found["halves"]
    assert found["fewer"] == [75, 0]
    assert found["rows"] == [20, 100]
    ended = seen["ended"]
    assert "Failed (aborted)" in ended["why"]
    before, after = (re.sub(r"\d[^,]*$", "", text) for text in ended["waits"])
    assert before == after, "it waits for the same, and longer"
    assert ended["drawn"] == "before", "the picture is not drawn again for that"
    assert [(row[0], row[1]) for row in seen["recovery"]] == [
        ("begun", "twenty, a part"),
        ("aborted\na worker joined", "twenty"),
        ("drill-7", "ready"),
        ("try", "ready"),
    ]
    assert seen["recovery"][0][4] == "30,123 of 90,456"
    assert seen["recovery"][3][6].endswith("expired")
    assert all(detail["overflow"] <= 0 for detail in seen["details"].values()), seen["details"]
    serious = [found for found in seen["violations"] if found["impact"] in ("serious", "critical")]
    assert not serious, json.dumps(serious, indent=1)
    assert seen["others"] == []
    assert not [line for line in seen["console"] if line.startswith("error")], seen["console"]


def test_ten_tabs_of_one_browser_are_live(tmp_path: Path) -> None:
    """A browser opens six connections to a service, and one tab holds the stream for all; another takes over."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    here = str(tmp_path)
    cluster.the_ledger.put(Trigger(n=1, id="first", type="full", storage=here, who="a test", ttl_ms=5_000))
    with serving(cluster, here, streams_max=2) as url:
        command = [str(WEB / "python"), str(ROOT / "tests" / "e2e" / "open_tabs.py"), url, "10"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as tabs:
            assert tabs.stdin is not None and tabs.stdout is not None
            try:
                for number, expected in enumerate(([1] * 10, [2] * 10, [2] * 9, [3] * 9)):
                    found = json.loads(tabs.stdout.readline())
                    assert found["rows"] == expected, number
                    if number in (0, 2):  # while they watch
                        name = f"more-{number}"
                        put = Trigger(
                            n=2 + number, id=name, type="full", storage=here, who="a test", ttl_ms=5_000
                        )
                        cluster.the_ledger.put(put)
                    if number < 3:
                        tabs.stdin.write("\n")
                        tabs.stdin.flush()
                assert tabs.wait(60) == 0
            finally:
                tabs.kill()


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
