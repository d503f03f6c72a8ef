"""The loops of docs/guide/clients.md as they stand: they run, and their snapshot holds their tables."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from snapkafka import ops
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics, started

pytestmark = pytest.mark.timeout(200)

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "clients.md"
ORDERS = 20


@pytest.mark.parametrize("which", ["confluent-kafka", "aiokafka"])
def test_the_loop_of_the_guide_runs(kafka: Broker, namespace: str, tmp_path: Path, which: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    text = dict(zip(("confluent-kafka", "aiokafka"), blocks, strict=True))[which]
    for name in ("shop", "billing", "orders", "invoices"):
        text = text.replace(f'"{name}"', f'"{namespace}-{name}"')
    text = text.replace("localhost:9092", kafka.bootstrap)
    text = re.sub(r"(AIOKafka\w+\()", rf'\1bootstrap_servers="{kafka.bootstrap}", ', text)
    (tmp_path / "loop.py").write_text(text)
    create_topics(kafka.bootstrap, f"{namespace}-orders", f"{namespace}-invoices", partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(ORDERS):
        producer.produce(f"{namespace}-orders", str(number), f"customer-{number % 3}")
    producer.flush(30)
    reader = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": namespace, "auto.offset.reset": "earliest"}
    )
    reader.subscribe([f"{namespace}-invoices"])
    found: list[int] = []

    def start(system: RunningSystem) -> None:
        system.workers.append(Worker("shop", tmp_path / "loop.txt", ["loop"], {}))

    def billed() -> bool:
        found.extend(int(message.value()) for message in reader.consume(ORDERS, 0.2) if not message.error())
        return len(found) == ORDERS

    with started(kafka.bootstrap, f"{namespace}-shop", start) as system:
        system.wait_until("all orders to be billed", billed, timeout_s=90)
        assert sorted(found) == list(range(ORDERS))
        rows = system.snapshot().query("SELECT key, CAST(value AS BIGINT) AS owed FROM state")
        assert sum(row["owed"] for row in rows) == sum(range(ORDERS)), rows
        loop = system.workers[0].child
        loop.send(signal.SIGTERM)
        assert loop.wait(60) == 0
        state = asyncio.run(ops.read_ledger(system.connection, system.namespace)).state
        assert not [*state.living()], "it left in order"
