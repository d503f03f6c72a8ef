"""One set of settings from a worker through the command to the Spark job, on listeners that let nobody else in."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from snapkafka.testing import RunningSystem, create_topics, started
from tests.kafka.secured import secured_broker

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def command(environ: Mapping[str, str], *arguments: str) -> tuple[int, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka", *arguments, "--json"],
        capture_output=True, text=True, timeout=300, env={**os.environ, **environ},
    )  # fmt: skip
    print(done.stderr[-2000:])
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("door", ["mutual", "sasl"])
def test_from_worker_to_spark(door: str, tmp_path: Path) -> None:
    with secured_broker(tmp_path) as secured:
        app, open_door = f"secured-{door}", secured.broker.bootstrap
        environ = secured.by_certificate() if door == "mutual" else secured.by_password("PLAIN")
        environ |= {"SNAPKAFKA_BOOTSTRAP": getattr(secured, door), "SNAPKAFKA_NAMESPACE": app}
        create_topics(open_door, f"{app}-in", partitions=2)

        def start(system: RunningSystem) -> None:
            system.start_worker(app, environ | {"SECURED_ID": app}, module="tests.e2e.secured_app")
            system.await_workers()

        with started(open_door, app, start) as system:
            for number in range(3):
                system.send(f"{app}-in", *[1] * 10, key=f"k{number}")
            status, reported = command(environ, "trigger", "--id", "s", "--wait", "--ttl", "20s")
            assert status == 0, reported
            stored = ["--storage", str(tmp_path / "tables"), "--engine", "spark"]
            status, reported = command(environ, "assemble", "s", *stored)
            assert status == 0, reported
            assert json.loads((tmp_path / "tables" / "s.json").read_text())["verdict"].startswith("VERIFIED")
