"""The embedded broker: it is ours, it works, and nothing of it is left behind."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.testing import EmbeddedKafka
from snapkafka.testing import kafka as any_kafka
from snapkafka.testing.embedded import STOP_TIMEOUT_S
from tests.freezing import freeze
from tests.kafka.waiting import cluster_id_at

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_a_setting_that_makes_no_sense_is_said_as_it_was_written() -> None:
    """The file is Latin-1 with escapes; the settings are any text."""
    with (
        pytest.raises(BrokerUnavailableError, match=r"soon\\é€.*log\.retention\.ms"),
        EmbeddedKafka(properties={"log.retention.ms": "soon\\é€"}),
    ):
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


def test_what_java_itself_refuses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:NoSuchFlag")
    with pytest.raises(BrokerUnavailableError, match="NoSuchFlag"), EmbeddedKafka():
        pass


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
