"""Topics as `snapkafka topics create` and the compose files make them, and `snapkafka broker`."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from snapkafka.cli import app
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.testing import Broker, EmbeddedKafka, free_ports
from snapkafka.until import blocking_until

pytestmark = pytest.mark.timeout(180)


def test_topics_have_the_partitions_and_the_settings_that_are_asked_for(kafka: Broker) -> None:
    names = [f"topics-{os.getpid()}-{n}" for n in range(2)]
    where = ["--bootstrap", kafka.bootstrap]
    create = ["topics", "create", *names, "--partitions", "3", "--compact", "--set", "retention.ms=7"]
    printed = CliRunner().invoke(app, [*create, *where])
    assert printed.exit_code == 0, printed.output
    rows = [line.split() for line in printed.output.splitlines()[2:]]
    assert rows == [[name, "created", "3"] for name in names]
    asked = {"cleanup.policy": "compact", "retention.ms": "7"}
    assert asyncio.run(_settings(kafka, names[0])).items() >= asked.items()
    other = ["topics", "create", names[0], "--partitions=3", "--set=retention.ms=8", *where]
    again = CliRunner().invoke(app, [*other, "--json"])
    assert json.loads(again.output)["topics"] == [{"topic": names[0], "created": False, "partitions": 3}]
    assert asyncio.run(_settings(kafka, names[0])).items() >= asked.items()


async def _settings(kafka: Broker, topic: str) -> Mapping[str, str]:
    admin = KafkaTopicAdmin(Connection(bootstrap=kafka.bootstrap))
    settings, _ = await admin.topic_settings(topic)
    await admin.close()
    return settings


def test_a_broker_alone_has_the_port_that_is_asked_for_and_ends_with_a_signal(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    printed = tmp_path / "printed.txt"
    with printed.open("wb") as out:
        broker = subprocess.Popen(
            [sys.executable, "-m", "snapkafka", "broker", "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        blocking_until(
            lambda: b"Kafka runs at" in printed.read_bytes(), 120, f"the broker: {printed.read_text()}"
        )
        assert f"Kafka runs at 127.0.0.1:{port}" in printed.read_text()
        create = ["topics", "create", "orders", "--bootstrap", f"127.0.0.1:{port}"]
        assert "orders  created           1\n" in CliRunner().invoke(app, create).output
        with pytest.raises(SnapkafkaError, match=str(port)), EmbeddedKafka(port=port):
            pass
        broker.terminate()  # Ctrl-C may be ignored here: who runs this in the background has it so
        assert broker.wait(60) == 143
    finally:
        broker.kill()
        broker.wait()
