"""R15: what snapkafka needs is not there, or of no use to it. The app does what it does without us."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from snapkafka.kafka import SETTINGS, Connection, KafkaLedger, KafkaTopicAdmin, topic_name
from snapkafka.protocol import Report
from snapkafka.testing import Broker
from snapkafka.wire import encode
from tests.kafka.guarding import PASSWORD, guarded_broker

from .harness import quick_and_slow
from .judging import Judge, Row

pytestmark = pytest.mark.timeout(400)

COUNT = 200
ROW = Row("quick", ("quick",), ("quick-out",), tables=("quick",))
RECORDS = 1_000_000
RELEASE = "0.15.4"


def as_without_us(bootstrap: str, namespace: str, folder: Path, env: Mapping[str, str] | None = None) -> str:
    """The app does what it would without us, and says that it takes no part; return the log of its worker."""
    with quick_and_slow(bootstrap, namespace, folder, env=env, joins=False) as pair:
        pair.send({"quick": [(f"k{n % 7}", b"{}", None) for n in range(COUNT)]}, seconds=4.0)
        pair.wait_for({"quick-out": COUNT})
        assert not pair.observer.state.processes, "it has joined: this shows nothing"
        pair.end()
        judge = Judge(pair)
        judge.same(ROW)
        judge.same_errors()
        assert "this worker runs without snapshots" in pair.ours.log
        return pair.ours.log


@pytest.mark.parametrize("operation", [AclOperation.ALL, AclOperation.WRITE])
def test_r15_a_principal_without_rights_on_the_ledger(
    namespace: str, tmp_path: Path, operation: AclOperation
) -> None:
    """It may do whatever it did before, and nothing with the ledger, or only read it."""
    allowed = {"allow.everyone.if.no.acl.found": "true"}
    with guarded_broker(["SHOP"], allowed) as (broker, address):
        ledger = topic_name(namespace)
        asyncio.run(create(broker.bootstrap, ledger))
        of_ours = (ResourceType.TOPIC, ledger, ResourcePatternType.LITERAL, "User:SHOP", "*")
        denied = AclBinding(*of_ours, operation, AclPermissionType.DENY)
        client = AdminClient({"bootstrap.servers": broker.bootstrap})
        client.create_acls([denied])[denied].result(30)
        env = {"SNAPKAFKA_BOOTSTRAP": address, "FEATURES_USER": "SHOP", "FEATURES_PASSWORD": PASSWORD}
        log = as_without_us(broker.bootstrap, namespace, tmp_path, env)
    assert "not allowed" in log, log


async def create(bootstrap: str, ledger: str) -> None:
    """As an administrator does."""
    admin = KafkaTopicAdmin(Connection(bootstrap=bootstrap))
    await admin.create_topic(ledger, settings=SETTINGS)
    await admin.close()


@pytest.mark.nightly
def test_r15_a_ledger_of_a_million_records_at_start(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """It starts, works and writes what it would without us; it takes part when it has read them."""
    asyncio.run(fill(kafka.bootstrap, namespace))
    as_without_us(kafka.bootstrap, namespace, tmp_path)


async def fill(bootstrap: str, namespace: str) -> None:
    """What the reports of some years leave, all of processes that nobody knows."""
    ledger = KafkaLedger(Connection(bootstrap=bootstrap), namespace)
    await ledger.open()
    nobodys = Report(process=10**9, n=0, epoch=17, previous=0, heard="ledger", assigned=-1, positions=())
    reports = [encode(replace(nobodys, n=n)) for n in range(1_000)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for n in range(RECORDS):
        if n % 10_000 == 0:
            while len(producer) > 50_000:
                producer.poll(0.1)
        producer.produce(ledger.topic, reports[n % len(reports)])
    assert producer.flush(60) == 0
    assert await ledger.end() == RECORDS
    await ledger.close()


def test_r15_another_release(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """Of Faust, not the one snapkafka is sewn to."""
    log = as_without_us(kafka.bootstrap, namespace, tmp_path, another_release(tmp_path / "other"))
    said = [line for line in log.splitlines() if "snapkafka: " in line]
    assert len(said) == 1
    assert f"faust-streaming {RELEASE} is not" in said[0]


def another_release(folder: Path) -> dict[str, str]:
    """The environment in which a worker runs on a later Faust."""
    about = folder / f"faust_streaming-{RELEASE}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: faust-streaming\nVersion: {RELEASE}\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
