"""R15: an app starts with a ledger that nobody has ever trimmed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from confluent_kafka import Producer

from snapkafka.kafka import Connection, KafkaLedger
from snapkafka.protocol import Closed
from snapkafka.testing import Broker
from snapkafka.wire import encode

from .unharmed import as_without_us

pytestmark = pytest.mark.timeout(400)

RECORDS = 1_000_000


@pytest.mark.nightly
def test_r15_a_ledger_of_a_million_records_at_start(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """It starts, works and writes what it would without us; it takes part when it has read them."""
    asyncio.run(fill(kafka.bootstrap, namespace))
    as_without_us(kafka.bootstrap, namespace, tmp_path)


async def fill(bootstrap: str, namespace: str) -> None:
    """What the closings of some years leave, all of processes that nobody knows."""
    ledger = KafkaLedger(Connection(bootstrap=bootstrap), namespace)
    await ledger.open()
    closings = [encode(Closed(process=10**9, n=n, epoch=17, report=3)) for n in range(1_000)]
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    for n in range(RECORDS):
        if n % 10_000 == 0:
            while len(producer) > 50_000:
                producer.poll(0.1)
        producer.produce(ledger.topic, closings[n % len(closings)])
    assert producer.flush(60) == 0
    assert await ledger.end() == RECORDS
    await ledger.close()
