"""A service that a source connector feeds, line by line, and whose results a sink connector takes."""

from typing import Any

import faust

import snapkafka

app = faust.App(
    "fed-shop",
    broker="kafka://production.invalid:9092",
    topic_partitions=1,
    topic_disable_leader=True,
    store="memory://",
)
snapkafka.install(app, namespace="shop")

totals = app.topic("totals", key_type=str, value_serializer="json")
seen = app.Table("seen", key_type=str, value_type=int, default=int)


@app.agent(app.topic("orders", value_type=bytes, value_serializer="raw"))
async def take_orders(stream: Any) -> None:
    async for line in stream:
        customer = line.decode().split()[0]
        seen[customer] += 1
        await totals.send(key=customer, value={"customer": customer, "orders": seen[customer]})
