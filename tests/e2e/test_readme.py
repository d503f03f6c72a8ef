"""Run README as it stands: its service, its topics, its commands, on a real broker and a real Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from snapkafka.testing import Broker, RunningSystem, wait_until
from tests.features.harness import read_topics
from tests.observing import observing
from tests.readme import commands, service, text

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

#: So many messages have to wait for the slow bank, for the snapshot to have some in flight.
IN_FLIGHT = 10


def test_what_readme_shows_is_what_happens(kafka: Broker, tmp_path: Path) -> None:
    """What is owed is what was paid and what is in flight."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    own = service().replace("localhost:9092", kafka.bootstrap)
    for name in ("shop", "orders", "payments"):
        own = own.replace(f'"{name}"', f'"{namespace}-{name}"')
    own = own.replace(f'namespace="{namespace}-shop"', f'namespace="{namespace}"')
    (tmp_path / "shop.py").write_text(own, encoding="utf-8")
    (create,) = re.findall(r"^snapkafka topics create .+", text(), re.MULTILINE)
    for name in ("orders", "payments"):
        create = create.replace(name, f"{namespace}-{name}")
    _shell(create.replace("localhost:9092", kafka.bootstrap), kafka, namespace, tmp_path)
    system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            system.start_worker("shop", module="shop")
            observer.wait_for_workers(system)

            def ordered() -> int:
                return len(read_topics(kafka.bootstrap, f"{namespace}-").get("payments", ()))

            wait_until("orders to be paid", lambda: ordered() > 2 * IN_FLIGHT, timeout_s=120, system=system)
            trigger, assemble, query = (
                command.replace("topic = 'payments'", f"topic = '{namespace}-payments'")
                for command in commands()
            )
            assert "CAPTURED" in _shell(trigger, kafka, namespace, tmp_path)
            assert re.search(
                r"friday .* VERIFIED$", _shell(assemble, kafka, namespace, tmp_path), re.MULTILINE
            )
            rows = json.loads(_shell(query + " --json", kafka, namespace, tmp_path))["rows"]
    finally:
        system.stop()
    found = {
        what: int(value) for what, value in (row.values() if isinstance(row, dict) else row for row in rows)
    }
    assert found["owed"] == found["paid"] + found["in flight"]
    assert found["in flight"] > 0, "a snapshot without a message in flight shows nothing"


def _shell(command: str, kafka: Broker, namespace: str, folder: Path) -> str:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SNAPKAFKA_BOOTSTRAP": kafka.bootstrap,
        "SNAPKAFKA_NAMESPACE": namespace,
    }
    done = subprocess.run(
        command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (command, done.stderr[-3000:])
    return done.stdout
