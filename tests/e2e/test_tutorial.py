"""Run the tutorial as it stands: its app and each of its commands, on a broker of its own, with real Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition
from markdown_it import MarkdownIt

from snapkafka.runtime.child import Child
from snapkafka.testing import RunningSystem, free_ports, wait_until
from snapkafka.until import blocking_until
from tests.kafka.waiting import cluster_id_at
from tests.observing import observing

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

TUTORIAL = Path(__file__).parents[2] / "docs" / "guide" / "tutorial.md"
#: So many payments lie in the log, most of them before the slow bank, when the first snapshot is triggered.
PAYMENTS = 40


def test_what_the_tutorial_shows_is_what_happens(tmp_path: Path) -> None:
    """What is owed is what was paid and what is in flight; the second snapshot differs from the first."""
    fences = [token for token in MarkdownIt().parse(TUTORIAL.read_text("utf-8")) if token.type == "fence"]
    (source,) = (token.content for token in fences if token.info == "python")
    _, broker, (create, worker), *commands = (
        token.content.splitlines() for token in fences if token.info == "sh"
    )
    assert worker == "faust -A shop worker -l info", "it is started below"
    (port,) = free_ports(1)
    bootstrap = f"localhost:{port}"

    def here(*lines: str) -> str:
        return "\n".join(lines).replace("localhost:9092", bootstrap)

    with Child(["bash", "-c", f"exec {broker[0]} --port {port}"], env=_environment()):
        (tmp_path / "shop.py").write_text(here(source), encoding="utf-8")
        blocking_until(lambda: cluster_id_at("127.0.0.1", port), 120, "the broker")
        assert re.search(r"payments +yes +2", _run(here(create), tmp_path))
        system = RunningSystem(bootstrap=bootstrap, namespace="tutorial", folder=tmp_path)
        try:
            with observing(bootstrap, "tutorial") as observer:
                system.start_worker("shop", module="shop")
                observer.wait_for_workers(system)
                wait_until(
                    f"{PAYMENTS} payments",
                    lambda: _records(bootstrap, "payments", 2) >= PAYMENTS,
                    timeout_s=120,
                    system=system,
                )
                printed = _run(here(*(line for block in commands for line in block)), tmp_path)
        finally:
            system.stop()
    for name in ("first", "second"):
        assert re.search(rf"^snapshot {name} .*CAPTURED", printed, re.MULTILINE), printed
        assert re.search(rf"^snapshot {name} .*VERIFIED$", printed, re.MULTILINE), printed
    (sums,) = re.findall(r"owed\W+paid\W+in_flight\W+(\d+)\W+(\d+)\W+(\d+)", printed)
    owed, paid, in_flight = map(int, sums)
    assert owed == paid + in_flight
    assert in_flight > 0, "a snapshot without a message in flight shows nothing"
    assert re.search(r"shop +owed +0 +1 +0 +0", printed), "one key of the table changed between the two"


def _records(bootstrap: str, topic: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tutorial-test"})
    try:
        ends = [
            consumer.get_watermark_offsets(KafkaPartition(topic, n), timeout=10) for n in range(partitions)
        ]
        return sum(high - low for low, high in ends)
    finally:
        consumer.close()


def _run(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-x", "-c", script],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )
    (folder / "printed.txt").write_text(f"{done.stdout}\n---\n{done.stderr}", encoding="utf-8")
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def _environment() -> dict[str, str]:
    """That of a user who has activated the virtual environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA_")}
    return env | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"}
