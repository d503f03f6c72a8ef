"""Assembly by `snapkafka serve` on a real system: asked for over HTTP, killed in its midst, finished by the next."""

from __future__ import annotations

import json
import os
import re
import signal
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest

from snapkafka.demo import TOTAL, count_money
from snapkafka.testing import RunningSystem, wait_until
from tests.driver.served import service, trigger
from tests.driver.test_operators import get
from tests.e2e.parts import Live, live

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1500)]


def text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        found: str = answer.read().decode()
        return found


def test_an_assembly_killed_with_its_service_is_finished_by_the_next(namespace: str, tmp_path: Path) -> None:
    """Killed while its job runs: no process, no manifest and no verdict stays; asked again elsewhere it is VERIFIED,
    and REST and diagram show it."""
    storage = tmp_path / "snaps"
    storage.mkdir()
    with live(namespace) as system:
        nobody = RunningSystem(
            bootstrap=system.bootstrap, namespace=namespace, folder=tmp_path
        )  # workers rest meanwhile
        with service(nobody, storage) as (url, pid):
            trigger(url, storage, "friday")
            wait_for(system, "the capture", lambda: get(f"{url}/v1/snapshots/friday")["status"] == "CAPTURED")
            system.rest()
            job = submit(url)
            assert (job["job_id"].split("-")[0], job["snapshot_id"]) == ("assemble", "friday")
            assert submit(url)["job_id"] == job["job_id"]  # one of a snapshot at a time

            def children() -> list[psutil.Process]:
                at = get(f"{url}/v1/jobs/{job['job_id']}")
                assert at["state"] in ("queued", "running"), at
                return psutil.Process(pid).children(recursive=True)

            wait_for(system, "the job's process", lambda: bool(children()), timeout_s=300)
            killed = children()
            os.kill(pid, signal.SIGKILL)
        wait_for(system, "its job to end", lambda: not any(child.is_running() for child in killed))
        assert not list(storage.glob("*.json"))

        with service(nobody, storage) as (url, _):
            before = get(f"{url}/v1/snapshots/friday")
            assert (before["status"], before["verdict"], before["assembled"]) == ("CAPTURED", None, False)
            with pytest.raises(urllib.error.HTTPError, match="405"):
                urllib.request.urlopen(f"{url}/v1/jobs/{job['job_id']}", data=b"", timeout=10)
            job = submit(url)
            ended: dict[str, Any] = {}

            def over() -> bool:
                ended.update(get(f"{url}/v1/jobs/{job['job_id']}"))
                return ended["state"] not in ("queued", "running")

            wait_for(system, "the job to end", over, timeout_s=600)
            assert (ended["state"], ended["verdict"]) == ("done", "VERIFIED"), ended
            wait_for(
                system, "the verdict", lambda: get(f"{url}/v1/snapshots/friday")["status"] == "COMPLETED"
            )
            shown = get(f"{url}/v1/snapshots/friday")
            assert shown["verdict"] == "VERIFIED"
            assert shown["checkpoint_manifest_uri"] == ended["checkpoint_manifest_uri"]
            assert shown["total_size_bytes"] > 0
            assert {check["name"]: check["status"] for check in shown["checks"]}["V2"] == "passed"
            assert count_money(storage / "friday.json").total == TOTAL
            assert 'class="message flight"' in text(f"{url}/v1/snapshots/friday/diagram.svg")
            asked = urllib.parse.urlencode({"wall_clock": "true"})
            wall = text(f"{url}/v1/snapshots/friday/diagram.svg?{asked}")
            assert re.search(r"[0-9,]+ messages? in flight across it", wall)


def wait_for(system: Live, what: str, holds: Any, *, timeout_s: float = 60) -> None:
    wait_until(what, holds, timeout_s=timeout_s, period_s=0.2)


def submit(url: str) -> dict[str, Any]:
    asked = urllib.request.Request(
        f"{url}/v1/snapshots/friday/assemble", data=b"{}", headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.status == 202
        found: dict[str, Any] = json.loads(answer.read())
        return found
