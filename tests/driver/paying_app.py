"""A Faust app with two inputs, PAYING_APP_ID + `-orders` and `-to-pay`; a table counts what came of each."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

ID = os.environ["PAYING_APP_ID"]

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    topic_partitions=1,
    topic_disable_leader=True,
    web_enabled=False,
)
snapkafka.install(app)
orders = app.topic(f"{ID}-orders", key_serializer="raw", value_serializer="raw")
to_pay = app.topic(f"{ID}-to-pay", key_serializer="raw", value_serializer="raw")
seen = app.Table("seen", default=int, partitions=1)


@app.agent(orders, name="order")
async def order(stream: Any) -> None:
    """Regroups, so that Faust creates a topic of its own after the worker has started."""
    async for _ in stream.group_by(lambda value: value, name="by-value"):
        seen["orders"] += 1


@app.agent(to_pay, name="pay")
async def pay(stream: Any) -> None:
    async for _ in stream:
        seen["to-pay"] += 1


@app.agent(name="inner")
async def inner(stream: Any) -> None:
    """Reads a channel: there is no topic that could be missing."""
    async for _ in stream:
        pass
