"""`snapkafka serve` beside real workers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snapkafka.testing import RunningSystem, wait_until
from tests.driver.test_operators import get


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
