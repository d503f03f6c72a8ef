"""The loops of docs/guide/clients.md as they stand: they run, and their snapshot holds their tables. And one with
`SNAPKAFKA=off`: it runs as without snapkafka, and its table is still there after a restart."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics, started
from tests.conformance.running import running
from tests.features.harness import read_topics
from tests.observing import Place

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
    orders, invoices = f"{namespace}-orders", f"{namespace}-invoices"
    create_topics(kafka.bootstrap, orders, invoices, partitions=2)

    def start(system: RunningSystem) -> None:
        for number in range(ORDERS):
            system.send(orders, number, key=f"customer-{number % 3}")
        system.workers.append(Worker("shop", tmp_path / "loop.txt", ["loop"], {}))

    def billed() -> list[int]:
        return sorted(int(record.value or b"") for record in read_topics(kafka.bootstrap, invoices)[""])

    with started(kafka.bootstrap, f"{namespace}-shop", start) as system:
        system.wait_until("all orders to be billed", lambda: len(billed()) >= ORDERS, timeout_s=90)
        assert billed() == list(range(ORDERS))
        rows = system.snapshot().query("SELECT key, CAST(value AS BIGINT) AS owed FROM state")
        assert sum(row["owed"] for row in rows) == sum(range(ORDERS)), rows
        loop = system.workers[0].child
        loop.send(signal.SIGTERM)
        assert loop.wait(60) == 0
        state = asyncio.run(ops.read_ledger(system.connection, system.namespace)).state
        assert not [*state.living()], "it left in order"


def test_a_loop_that_is_switched_off(place: Place) -> None:
    with running(place, ticks=False) as run:
        for number, coins in enumerate((1, 2)):  # the third one is returned
            keeper = run.start("confluent", "keeper", SNAPKAFKA="off")
            run.system.send(run.names.coins, coins, key="k")
            run.await_committed("keeper", number + 1)
            run.leave(keeper)
        (found,) = read_topics(place.bootstrap, run.names.change)[""]
        assert (found.value, found.stamp, found.headers) == (b"1", None, ())
        assert not run.observer.state.processes
