"""The embedded broker, `snapkafka broker` and `snapkafka topics create`: it works, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from snapkafka.cli import app
from snapkafka.errors import BadInputError, BrokerUnavailableError, SnapkafkaError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.testing import Broker, EmbeddedKafka, free_ports
from snapkafka.testing import kafka as any_kafka
from snapkafka.testing.embedded import STOP_TIMEOUT_S
from snapkafka.until import blocking_until
from tests.freezing import freeze
from tests.kafka.waiting import cluster_id_at


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


@pytest.mark.nightly
def test_a_frozen_one_is_thawed_to_stop_in_order() -> None:
    with EmbeddedKafka() as broker:
        freeze(broker)
        began = time.monotonic()
    assert time.monotonic() - began < STOP_TIMEOUT_S


@pytest.mark.parametrize(
    ("properties", "flags", "said"),
    [
        ({"log.retention.ms": "soon\\é€"}, "", r"soon\\é€.*log\.retention\.ms"),
        ({}, "-XX:NoSuchFlag", "NoSuchFlag"),
    ],
)
def test_what_kafka_or_java_refuses_is_said_as_it_was_written(
    properties: dict[str, str], flags: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of settings is Latin-1 with escapes; the settings are any text."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", flags)
    with pytest.raises(BrokerUnavailableError, match=said), EmbeddedKafka(properties=properties):
        pass


def test_it_runs_in_any_folder_and_leaves_no_process_and_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes a comma for the next folder, and Java's file of settings is Latin-1."""
    folder = tmp_path / "für, Tests €"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with EmbeddedKafka() as broker:
        assert broker.folder.parent == folder
        assert cluster_id_at("127.0.0.1", broker.port) == broker.cluster_id
        pids = [broker.pid or 0, broker._process._watchdog.pid if broker._process else 0]
        assert all(map(psutil.pid_exists, pids))
    assert not any(map(psutil.pid_exists, pids))
    assert list(folder.iterdir()) == []


def test_a_given_broker_is_used_and_not_stopped(
    embedded: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPKAFKA_TEST_BOOTSTRAP", embedded.bootstrap)
    with any_kafka() as broker:
        assert broker.bootstrap == embedded.bootstrap
    assert cluster_id_at("127.0.0.1", embedded.port) == embedded.cluster_id
    with (
        pytest.raises(BadInputError, match="settings of its own"),
        any_kafka(properties={"num.partitions": "3"}),
    ):
        pass


pytestmark = pytest.mark.timeout(180)


def test_topics_have_the_partitions_and_the_settings_that_are_asked_for(kafka: Broker) -> None:
    names = [f"topics-{os.getpid()}-{n}" for n in range(2)]
    where = ["--bootstrap", kafka.bootstrap]
    create = ["topics", "create", *names, "--partitions", "3", "--compact", "--set", "retention.ms=7"]
    printed = CliRunner().invoke(app, [*create, *where, "--json"])
    assert printed.exit_code == 0, printed.output
    made = [{"topic": name, "created": True, "partitions": 3} for name in names]
    assert json.loads(printed.output)["topics"] == made
    asked = {"cleanup.policy": "compact", "retention.ms": "7"}
    assert asyncio.run(_settings(kafka, names[0])).items() >= asked.items()
    other = ["topics", "create", names[0], "--partitions=3", "--set=retention.ms=8", *where]
    again = CliRunner().invoke(app, [*other, "--json"])
    assert json.loads(again.output)["topics"] == [{"topic": names[0], "created": False, "partitions": 3}]
    assert asyncio.run(_settings(kafka, names[0])).items() >= asked.items()


async def _settings(kafka: Broker, topic: str) -> Mapping[str, str]:
    async with KafkaTopicAdmin(Connection(bootstrap=kafka.bootstrap)) as admin:
        return (await admin.topic_settings(topic))[0]


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
        create = ["topics", "create", "orders", "--bootstrap", f"127.0.0.1:{port}", "--json"]
        assert json.loads(CliRunner().invoke(app, create).output)["topics"][0]["created"]
        with pytest.raises(SnapkafkaError, match=str(port)), EmbeddedKafka(port=port):
            pass
        broker.terminate()  # Ctrl-C may be ignored here: who runs this in the background has it so
        assert broker.wait(60) == 143
    finally:
        broker.kill()
        broker.wait()
