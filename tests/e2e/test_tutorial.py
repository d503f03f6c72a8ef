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

from snapkafka.demo.observer import observing
from snapkafka.demo.system import System, wait_until
from snapkafka.testing import EmbeddedKafka, create_topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

TUTORIAL = Path(__file__).parents[2] / "docs" / "guide" / "tutorial.md"
#: So many payments lie in the log, most of them before the slow bank, when the first snapshot is triggered.
PAYMENTS = 40


def test_what_the_tutorial_shows_is_what_happens(tmp_path: Path) -> None:
    """What is owed is what was paid and what is in flight; the second snapshot differs from the first."""
    fences = [token for token in MarkdownIt().parse(TUTORIAL.read_text("utf-8")) if token.type == "fence"]
    (source,) = (token.content for token in fences if token.info == "python")
    (created,) = (token.content for token in fences if "kafka-topics.sh" in token.content)
    script = "".join(
        token.content for token in fences if re.search(r"^snapkafka ", token.content, re.MULTILINE)
    )
    with EmbeddedKafka() as broker:
        (tmp_path / "shop.py").write_text(
            source.replace("localhost:9092", broker.bootstrap), encoding="utf-8"
        )
        (topics,) = re.findall(r"for topic in (.+); do", created)
        (partitions,) = re.findall(r"--partitions (\d+)", created)
        create_topics(broker.bootstrap, *topics.split(), partitions=int(partitions))
        system = System(bootstrap=broker.bootstrap, namespace="tutorial", folder=tmp_path)
        try:
            with observing(broker.bootstrap, "tutorial") as observer:
                system.start_worker("shop", module="shop")
                observer.wait_for_workers(system)
                wait_until(
                    f"{PAYMENTS} payments",
                    lambda: _records(broker.bootstrap, "payments", int(partitions)) >= PAYMENTS,
                    timeout_s=120,
                    system=system,
                )
                printed = _run(script.replace("localhost:9092", broker.bootstrap), tmp_path)
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
    env = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA_")}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        ["bash", "-x", "-c", script], cwd=folder, env=env, capture_output=True, text=True, timeout=400
    )
    (folder / "printed.txt").write_text(f"{done.stdout}\n---\n{done.stderr}", encoding="utf-8")
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout
