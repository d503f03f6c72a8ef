"""One set of settings from a worker through the command to the Spark job, on listeners that let nobody else in."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from snapkafka.testing import RunningSystem, create_topics
from tests.kafka.secured import secured_broker
from tests.observing import observing

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
        address = getattr(secured, door)
        app = f"secured-{door}"
        environ = secured.by_certificate() if door == "mutual" else secured.by_password("PLAIN")
        environ |= {"SNAPKAFKA_BOOTSTRAP": address, "SNAPKAFKA_NAMESPACE": app, "SECURED_ID": app}
        create_topics(secured.broker.bootstrap, f"{app}-in", partitions=2)
        system = RunningSystem(address, app, Path(tempfile.mkdtemp(prefix="snapkafka-secured-")))
        try:
            system.start_worker(app, environ, module="tests.e2e.secured_app")
            with observing(secured.broker.bootstrap, app) as observer:
                observer.wait_for_workers(system)
            producer = Producer({"bootstrap.servers": secured.broker.bootstrap})
            for number in range(30):
                producer.produce(f"{app}-in", b"1", key=b"k%d" % (number % 3))
            producer.flush(30)
            status, reported = command(environ, "trigger", "--id", "s", "--wait", "--ttl", "20s")
            assert status == 0, reported
            status, reported = command(environ, "assemble", "s", "--storage", str(tmp_path / "tables"))
            assert status == 0, reported
            assert json.loads((tmp_path / "tables" / "s.json").read_text())["verdict"].startswith("VERIFIED")
        finally:
            system.stop()
            shutil.rmtree(system.folder, ignore_errors=True)
