"""The service of the three paths: orders become payments, of two tables."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

app = faust.App(
    "shop",
    broker=f"kafka://{os.environ.get('SNAPKAFKA_BOOTSTRAP', 'localhost:9092')}",
    topic_partitions=2,
    topic_disable_leader=True,
    store="memory://",
)
snapkafka.install(app, namespace="paths")

orders = app.topic("orders", key_type=str, value_type=int)
payments = app.topic("payments", key_type=str, value_type=int)
owed = app.Table("owed", default=int)
paid = app.Table("paid", default=int)


@app.agent(orders)
async def order(stream: Any) -> None:
    async for name, amount in stream.items():
        owed[name] += amount
        await payments.send(key=name, value=amount)


@app.agent(payments)
async def pay(stream: Any) -> None:
    async for name, amount in stream.items():
        paid[name] += amount
