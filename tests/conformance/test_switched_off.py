"""A loop with `SNAPKAFKA=off` runs as without snapkafka, and its table is still there after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as PlainConsumer

from snapkafka.clients import participant
from snapkafka.drivers import Consumer, Producer, Table
from snapkafka.testing import Broker, create_topics

pytestmark = pytest.mark.timeout(200)


def test_a_loop_that_is_switched_off_keeps_its_table_and_sends_no_header(
    kafka: Broker, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SNAPKAFKA", "off")
    where: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap}
    orders, invoices = f"{namespace}-orders", f"{namespace}-invoices"
    create_topics(kafka.bootstrap, orders, invoices, partitions=1)
    producer = Producer(where)
    for amount in (1, 2):
        producer.produce(orders, str(amount), "ann")
        producer.flush(30)
        group = {"group.id": f"{namespace}-billing", "enable.auto.commit": False}
        consumer = Consumer(where | group | {"auto.offset.reset": "earliest"})
        owed = Table("owed", default=int)
        with participant(
            namespace=namespace, consumer=consumer, producer=producer, inputs=[orders], state=owed
        ) as part:
            for message in part.poll():
                with part.event(message):
                    owed["ann"] += int(message.value())
                    producer.produce(invoices, str(owed["ann"]), "ann")
                producer.flush(30)
                consumer.commit(message, asynchronous=False)
                part.stop()
            assert "disabled" in part.host.absent
        consumer.close()
    reader = PlainConsumer(where | {"group.id": f"{namespace}-reader", "auto.offset.reset": "earliest"})
    reader.subscribe([invoices])
    found: list[bytes | None] = []
    while len(found) < 2:
        message = reader.poll(30)
        assert message is not None and message.error() is None
        assert not message.headers()
        found.append(message.value())
    reader.close()
    assert found == [b"1", b"3"]
