"""The embedded broker: it works, and nothing is left behind."""

import tempfile
import time
from pathlib import Path

import psutil
import pytest

from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.testing import Broker, EmbeddedKafka
from snapkafka.testing import kafka as any_kafka
from snapkafka.testing.embedded import STOP_TIMEOUT_S
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


def test_it_runs_in_any_folder_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_given_broker_is_used_and_its_port_is_taken(kafka: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNAPKAFKA_TEST_BOOTSTRAP", kafka.bootstrap)
    with any_kafka() as broker:
        assert broker.bootstrap == kafka.bootstrap
    with pytest.raises(BadInputError), any_kafka(properties={"num.partitions": "3"}):
        pass
    port = kafka.bootstrap.rpartition(":")[2]
    with pytest.raises(BrokerUnavailableError) as raised, EmbeddedKafka(port=int(port)):
        pass
    assert port in raised.value.facts["log"]
