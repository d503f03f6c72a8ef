"""The embedded broker, `snapkafka broker` and `snapkafka topics create`: it works, and nothing is left behind."""

import asyncio
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from snapkafka.cli import app
from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.runtime import Child
from snapkafka.testing import HOST, Broker, EmbeddedKafka, free_ports
from snapkafka.testing import kafka as any_kafka
from snapkafka.testing.embedded import STOP_TIMEOUT_S
from snapkafka.until import blocking_until
from tests.freezing import freeze
from tests.kafka.waiting import cluster_id_at

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize(
    ("properties", "flags", "words"),
    [
        ({"log.retention.ms": "soon\\é€"}, "", ("soon\\é€", "log.retention.ms")),
        ({}, "-XX:NoSuchFlag", ("NoSuchFlag",)),
    ],
)
def test_what_kafka_or_java_refuses_is_in_the_log_as_it_was_written(
    properties: dict[str, str], flags: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of settings is Latin-1 with escapes; the settings are any text."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", flags)
    with pytest.raises(BrokerUnavailableError) as raised, EmbeddedKafka(properties=properties):
        pass
    assert all(word in raised.value.facts["log"] for word in words)


def test_it_runs_in_any_folder_and_leaves_no_process_and_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes a comma for the next folder, and Java's file of settings is Latin-1. A frozen broker stops
    in order."""
    folder = tmp_path / "für, Tests €"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with EmbeddedKafka() as broker:
        assert broker.folder.parent == folder
        assert cluster_id_at(broker.bootstrap) == broker.cluster_id
        pids = [broker.pid or 0, broker._process._watchdog.pid if broker._process else 0]
        assert all(map(psutil.pid_exists, pids))
        freeze(broker)
        began = time.monotonic()
    assert time.monotonic() - began < STOP_TIMEOUT_S
    assert not any(map(psutil.pid_exists, pids))
    assert list(folder.iterdir()) == []


def test_a_given_broker_is_used_as_it_is(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPKAFKA_TEST_BOOTSTRAP", kafka.bootstrap)
    with any_kafka() as broker:
        assert broker.bootstrap == kafka.bootstrap
    with pytest.raises(BadInputError), any_kafka(properties={"num.partitions": "3"}):
        pass


async def test_topics_have_the_partitions_and_the_settings_that_are_asked_for(
    kafka: Broker, admin: KafkaTopicAdmin, namespace: str
) -> None:
    async def created(*arguments: str) -> Any:
        where = ["--partitions=3", "--json", "--bootstrap", kafka.bootstrap]
        done = await asyncio.to_thread(CliRunner().invoke, app, ["topics", "create", *arguments, *where])
        return json.loads(done.output)["topics"]

    names = [f"{namespace}-{n}" for n in range(2)]
    made = [{"topic": name, "created": True, "partitions": 3} for name in names]
    assert await created(*names, "--compact", "--set", "retention.ms=7") == made
    assert await created(names[0], "--set=retention.ms=8") == [made[0] | {"created": False}]
    asked = {"cleanup.policy": "compact", "retention.ms": "7"}
    assert (await admin.topic_settings(names[0]))[1] == asked


@pytest.mark.nightly  # as is that of the tutorial
def test_a_broker_alone_has_the_port_that_is_asked_for_and_ends_with_a_signal() -> None:
    (port,) = free_ports(1)
    with Child([sys.executable, "-m", "snapkafka", "broker", "--port", str(port)]) as broker:
        blocking_until(lambda: cluster_id_at(f"{HOST}:{port}"), 120, "the broker")
        with pytest.raises(BrokerUnavailableError) as raised, EmbeddedKafka(port=port):
            pass
        assert str(port) in raised.value.facts["log"]
        broker.send(signal.SIGTERM)  # Ctrl-C may be ignored here: who runs this in the background has it so
        assert broker.wait(60) == 143
