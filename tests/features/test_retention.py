"""faust-streaming/faust#651: retention deletes segments of a changelog while a worker recovers from it. Plain Faust, a
real broker that really deletes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from snapkafka.demo import System, wait_until
from snapkafka.testing import EmbeddedKafka, create_topics

from .harness import PARTITIONS, produce, read_topics, stop

pytestmark = pytest.mark.timeout(200)

#: It looks for what is to be deleted every 100 ms instead of every 5 min, and from the start on.
EAGER = {"log.retention.check.interval.ms": "100", "log.initial.task.delay.ms": "0"}
HOUR_MS = 3_600_000
#: So many are two hours old and go, so many are new and stay.
OLD, NEW = 20, 3
DEADLINE_S = 60.0


@dataclass
class Recovering:
    """A worker that stands at the first record of its recovery, and the rest of what is old is gone."""

    broker: EmbeddedKafka
    system: System
    folder: Path
    app: str
    go_on: Callable[[], object]

    @property
    def log(self) -> str:
        return self.system.workers[0].log.read_text(errors="replace")

    def inputs(self) -> int:
        """How many it runs; -1 while it recovers."""
        (reported,) = (self.folder / "ready").iterdir()
        return int(reported.read_text())

    def reported(self) -> list[list[str]]:
        """The keys of its table at each event."""
        records = read_topics(self.broker.bootstrap, f"{self.app}-kept-out").get("", [])
        return [json.loads(record.value or b"null") for record in records]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(properties=EAGER) as running:
        yield running


@pytest.fixture
def recovering(broker: EmbeddedKafka, namespace: str, tmp_path: Path, reset: str) -> Iterator[Recovering]:
    app, changelog = namespace, f"{namespace}-kept-changelog"
    create_topics(broker.bootstrap, f"{app}-in-kept", f"{app}-kept-out", partitions=PARTITIONS)
    create_topics(
        broker.bootstrap,
        changelog,
        partitions=PARTITIONS,
        # Each record is a segment of its own.
        config={"cleanup.policy": "delete", "retention.ms": str(24 * HOUR_MS), "segment.ms": "1"},
    )
    write(broker, changelog)
    gate, stands, ready = tmp_path / "gate", tmp_path / "stands", tmp_path / "ready"
    ready.mkdir()
    system = System(bootstrap=broker.bootstrap, namespace=namespace, folder=tmp_path)
    system.start_worker(
        app,
        {
            "SNAPKAFKA": "off",
            "FEATURES_ID": app,
            "FEATURES_INPUT": f"{app}-in",
            "FEATURES_READY": str(ready),
            "FEATURES_RESET": reset,
            "FEATURES_GATE": str(gate),
            "FEATURES_STANDS": str(stands),
        },
        module="tests.features.apps.retained",
    )
    try:
        wait_until("the recovery to begin", stands.exists, timeout_s=DEADLINE_S, system=system)
        keep_for_an_hour(broker, changelog)
        wait_until(
            "the broker to delete what is old",
            lambda: log_start(broker, changelog) == OLD,
            timeout_s=DEADLINE_S,
        )
        yield Recovering(broker, system, tmp_path, app, gate.touch)
    finally:
        stop(system)


def write(broker: EmbeddedKafka, topic: str) -> None:
    producer, now = (
        Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0}),
        time.time_ns() // 1_000_000,
    )
    for n in range(OLD + NEW):
        age_ms = 2 * HOUR_MS if n < OLD else 0
        producer.produce(topic, b"%d" % n, b'"k%02d"' % n, partition=0, timestamp=now - age_ms)
        producer.flush(10)


def keep_for_an_hour(broker: EmbeddedKafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    change = ConfigEntry("retention.ms", str(HOUR_MS), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(10)


def log_start(broker: EmbeddedKafka, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "log_level": 0})
    start, _ = consumer.get_watermark_offsets(KafkaPartition(topic, 0), timeout=10)
    consumer.close()
    return int(start)


def send_one(recovering: Recovering) -> None:
    produce(recovering.broker.bootstrap, f"{recovering.app}-in-kept", [("k", b"{}", None)])


@pytest.mark.nightly
@pytest.mark.parametrize("reset", ["latest"])
def test_651_plain_faust_never_ends_a_recovery_from_which_retention_takes(recovering: Recovering) -> None:
    """Its position is gone, the reset policy says to go on at the end, and there is nothing to come: it waits for
    records that nobody writes, as only it could, and runs no event."""
    recovering.go_on()
    wait_until(
        "Faust to say that it gets nothing",
        lambda: "No event received for active tp" in recovering.log and "in the last" in recovering.log,
        timeout_s=DEADLINE_S,
        system=recovering.system,
    )
    send_one(recovering)
    said = recovering.log.count("in the last")
    wait_until(
        "Faust to say so ten times more",
        lambda: recovering.log.count("in the last") >= said + 10,
        timeout_s=DEADLINE_S,
        system=recovering.system,
    )
    assert recovering.inputs() == -1
    assert not recovering.reported()


@pytest.mark.nightly
@pytest.mark.parametrize("reset", ["earliest"])
@pytest.mark.nightly
def test_651_plain_faust_runs_events_on_what_retention_leaves_of_a_table(recovering: Recovering) -> None:
    """With the default policy it goes on where the log begins now, and says nothing: what it had read is in the table,
    and what is left; the keys between are not, though each was there when the recovery began."""
    recovering.go_on()
    wait_until(
        "the recovery to end",
        lambda: recovering.inputs() == PARTITIONS,
        timeout_s=DEADLINE_S,
        system=recovering.system,
    )
    send_one(recovering)
    wait_until(
        "an answer", lambda: bool(recovering.reported()), timeout_s=DEADLINE_S, system=recovering.system
    )
    (keys,) = recovering.reported()
    read = len(keys) - NEW
    assert 0 < read < OLD, "all or nothing of what was old: the test shows nothing"
    assert keys == [f"k{n:02}" for n in (*range(read), *range(OLD, OLD + NEW))]
    assert "WARN" not in recovering.log
