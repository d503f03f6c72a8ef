"""`snapkafka serve` beside two real workers: a snapshot over HTTP, and a service that is killed in its midst."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from snapkafka.testing import Broker, RunningSystem, wait_until
from tests.driver.test_operators import get, two_workers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240)]


@contextmanager
def service(system: RunningSystem, folder: Path) -> Iterator[tuple[str, int]]:
    """A service process; its URL and pid."""
    log = folder / f"service-{len(list(folder.glob('service-*')))}.log"
    command = [sys.executable, "-m", "snapkafka", "serve", "--bootstrap", system.bootstrap]
    command += ["--namespace", system.namespace, "--port", "0", "--storage-root", str(folder)]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as running:
        try:
            url = ""

            def listens() -> bool:
                nonlocal url
                found = re.search(r"on (http://\S+)/", log.read_text())
                url = found[1] if found else ""
                return bool(found) and get(f"{url}/readyz")["status"] == "ok"

            def ready() -> bool:
                assert running.poll() is None, log.read_text()
                try:
                    return listens()
                except OSError:
                    return False

            wait_until("the service to be ready", ready, timeout_s=60, system=system)
            yield url, running.pid
        finally:
            running.kill()


def trigger(url: str, folder: Path, name: str, **more: Any) -> dict[str, Any]:
    body = {"initiated_by_node_id": "a-test", "snapshot_type": "full", "target_storage_uri": str(folder)}
    asked = urllib.request.Request(
        f"{url}/v1/snapshots/trigger",
        data=json.dumps(body | {"snapshot_id": name} | more).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.status == 202
        found: dict[str, Any] = json.loads(answer.read())
        return found


def test_a_snapshot_over_http_and_a_service_that_is_killed_in_its_midst(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    with two_workers(kafka, namespace, tmp_path) as (run, _):
        with service(run.system, tmp_path) as (url, pid):
            reported = trigger(url, tmp_path, "first")
            assert (reported["snapshot_id"], reported["status"]) == ("first", "INITIATED")
            shown: dict[str, Any] = {}

            def status(of: str) -> str:
                shown.update(get(f"{url}/v1/snapshots/{of}"))
                return str(shown["status"])

            run.until("the capture", lambda: status("first") == "CAPTURED")
            assert (shown["nodes_completed"], shown["nodes_failed"]) == (2, 0)
            assert shown["checkpoint_manifest_uri"] == str(tmp_path / "first.json")
            assert trigger(url, tmp_path, "first")["epoch"] == reported["epoch"]

            victim = run.system.workers[1].pid
            os.kill(victim, signal.SIGSTOP)
            try:
                epoch = trigger(url, tmp_path, "midst", ttl_ms=60_000)["epoch"]
                run.until(
                    "one of two to have closed",
                    lambda: status("midst") == "CAPTURING" and shown["nodes_completed"] == 1,
                )
                assert any("to report its cut" in wait for wait in shown["waits_for"])
                os.kill(pid, signal.SIGKILL)
            finally:
                os.kill(victim, signal.SIGCONT)
        snapshots = run.observer.state.snapshots
        run.until("its end", lambda: not snapshots[epoch].open)
        assert snapshots[epoch].failure is None, snapshots[epoch].failure
        with service(run.system, tmp_path) as (url, _):
            listed = [row["snapshot_id"] for row in get(f"{url}/v1/snapshots")["snapshots"]]
            assert listed == ["midst", "first"]
            assert get(f"{url}/v1/snapshots/midst")["status"] == "CAPTURED"
            assert trigger(url, tmp_path, "midst")["epoch"] == epoch
