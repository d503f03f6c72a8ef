"""The embedded broker: it is ours, it works, and nothing of it is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.testing import kafka as any_kafka
from snapkafka.testing.embedded import STOP_TIMEOUT_S
from tests.freezing import freeze
from tests.kafka.waiting import cluster_id_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapkafka.testing import Broker


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(*pids: int, timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while left := [pid for pid in pids if alive(pid)]:
        assert time.monotonic() < deadline, f"processes {left} are still there after {timeout_s:g} s"
        time.sleep(0.1)


async def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    try:
        for value in values:
            await producer.send_and_wait(topic, value, partition=0, headers=[("h", b"1")])
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return [(await consumer.getone()).value for _ in range(count)]
    finally:
        await consumer.stop()


async def test_a_client_can_produce_and_consume(kafka: Broker, topic_prefix: str) -> None:
    """The fixtures of the plugin, on whichever broker they choose."""
    topic = f"{topic_prefix}a"
    create_topics(kafka.bootstrap, topic, partitions=2)
    await produce(kafka.bootstrap, topic, [b"1", b"2"])
    assert await consume(kafka.bootstrap, topic, 2) == [b"1", b"2"]


@pytest.mark.nightly
async def test_data_and_address_outlive_a_stop_and_a_kill(topic_prefix: str) -> None:
    topic = f"{topic_prefix}a"
    with EmbeddedKafka() as broker:
        bootstrap, first = broker.bootstrap, broker.pid
        create_topics(bootstrap, topic)
        await produce(bootstrap, topic, [b"before the stop"])
        broker.stop()
        assert broker.pid is None
        assert cluster_id_at("127.0.0.1", broker.port) is None
        broker.start()
        assert broker.bootstrap == bootstrap
        assert broker.pid != first
        await produce(bootstrap, topic, [b"before the kill"])
        broker.kill()
        broker.start()
        assert await consume(bootstrap, topic, 2) == [b"before the stop", b"before the kill"]


@pytest.mark.nightly
def test_a_frozen_one_is_thawed_to_stop_in_order() -> None:
    with EmbeddedKafka() as broker:
        freeze(broker)
        began = time.monotonic()
    assert time.monotonic() - began < STOP_TIMEOUT_S


def test_leaving_the_block_leaves_no_process_and_no_data() -> None:
    with EmbeddedKafka() as broker:
        pids = [broker.pid or 0, broker._process._watchdog.pid if broker._process else 0]
        folder = broker.folder
        assert all(map(alive, pids))
    assert not any(map(alive, pids))
    assert not folder.exists()


OWNER = """
import signal, threading, time
from snapkafka.testing import EmbeddedKafka
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background leaves it ignored
broker = EmbeddedKafka()
thread = threading.Thread(target=broker.start)  # one that ends: the broker must not end with it
thread.start(); thread.join()
with broker:
    print(broker.pid, broker._process._watchdog.pid, broker.folder, broker.port, flush=True)
    time.sleep(60)
"""


@contextlib.contextmanager
def owner_of_a_broker() -> Iterator[tuple[subprocess.Popen[str], int, int, Path, int]]:
    """A Python process that has started a broker, the ids of broker and watchdog, its folder and port."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    )  # fmt: skip
    with owner:
        try:
            assert owner.stdout is not None
            broker, watchdog, folder, port = owner.stdout.readline().split()
            time.sleep(1)
            assert alive(int(broker))
            yield owner, int(broker), int(watchdog), Path(folder), int(port)
        finally:
            owner.kill()


@pytest.mark.parametrize(
    "how",
    [
        signal.SIGKILL,
        *(pytest.param(how, marks=pytest.mark.nightly) for how in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_no_java_outlives_its_owner(how: signal.Signals) -> None:
    with owner_of_a_broker() as (owner, broker, watchdog, folder, port):
        if how is signal.SIGINT:
            os.killpg(owner.pid, how)  # as Ctrl-C does
        else:
            owner.send_signal(how)
        owner.wait(30)
        wait_until_gone(broker, watchdog)
        assert not folder.exists()
        assert cluster_id_at("127.0.0.1", port) is None


def test_a_setting_that_makes_no_sense_is_said_as_it_was_written() -> None:
    """The file is Latin-1 with escapes; the settings are any text."""
    with (
        pytest.raises(BrokerUnavailableError, match=r"soon\\é€.*log\.retention\.ms"),
        EmbeddedKafka(properties={"log.retention.ms": "soon\\é€"}),
    ):
        pass


def test_it_runs_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka takes a comma for the next folder, and Java's file of settings is Latin-1."""
    folder = tmp_path / "für, Tests €"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with EmbeddedKafka() as broker:
        assert broker.folder.parent == folder
        assert cluster_id_at("127.0.0.1", broker.port) == broker.cluster_id
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
