"""The loops of docs/guide/clients.md as they stand: they run, and their snapshot holds their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from snapkafka.testing import Broker, RunningSystem, Worker, create_topics
from snapkafka.until import blocking_until

pytestmark = pytest.mark.timeout(200)

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "clients.md"
ORDERS = 20


@pytest.mark.parametrize("which", ["confluent-kafka", "aiokafka"])
def test_the_loop_of_the_guide_runs(kafka: Broker, namespace: str, tmp_path: Path, which: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    text = blocks[which == "aiokafka"]
    for name in ("shop", "billing", "orders", "invoices"):
        text = text.replace(f'"{name}"', f'"{namespace}-{name}"')
    text = text.replace("localhost:9092", kafka.bootstrap)
    text = text.replace("AIOKafkaConsumer(", f'AIOKafkaConsumer(bootstrap_servers="{kafka.bootstrap}", ')
    text = text.replace("AIOKafkaProducer(", f'AIOKafkaProducer(bootstrap_servers="{kafka.bootstrap}", ')
    (tmp_path / "loop.py").write_text(text)
    create_topics(kafka.bootstrap, f"{namespace}-orders", f"{namespace}-invoices", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(ORDERS):
        producer.produce(f"{namespace}-orders", str(number), f"customer-{number % 3}")
    producer.flush(30)
    group = {"group.id": f"{namespace}-reader", "auto.offset.reset": "earliest"}
    reader = Consumer({"bootstrap.servers": kafka.bootstrap} | group)
    reader.subscribe([f"{namespace}-invoices"])
    system = RunningSystem(kafka.bootstrap, f"{namespace}-shop", tmp_path)
    system.workers.append(Worker("shop", tmp_path / "loop.txt", ["loop"], {}))
    found: list[int] = []

    def billed() -> bool:
        system.check_alive()
        message = reader.poll(0.2)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
        return len(found) == ORDERS

    try:
        blocking_until(billed, 90, "all orders to be billed", every_s=0)
        assert sorted(found) == list(range(ORDERS))
        rows = system.snapshot().query("SELECT key, CAST(value AS BIGINT) AS owed FROM state")
        assert sum(row["owed"] for row in rows) == sum(range(ORDERS)), rows
    finally:
        system.stop()
        reader.close()
