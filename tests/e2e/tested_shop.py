"""Two services as their authors have them: a broker of production in the code, and snapkafka installed."""

from typing import Any

import faust

import snapkafka

SETTINGS: dict[str, Any] = {
    "broker": "kafka://production.invalid:9092",
    "broker_credentials": faust.SASLCredentials(username="shop", password="of-production", mechanism="PLAIN"),
    "topic_partitions": 2,
    "topic_disable_leader": True,
    "store": "memory://",
}
orders, payments = faust.App("tested-orders", **SETTINGS), faust.App("tested-payments", **SETTINGS)
for app in (orders, payments):
    snapkafka.install(app, namespace="tested-shop")

ordered = orders.Table("ordered", default=int)
paid = payments.Table("paid", default=int)


@orders.agent(orders.topic("tested-new-orders", key_type=str, value_type=int))
async def take_orders(stream: Any) -> None:
    async for customer, amount in stream.items():
        ordered[customer] += amount
        await orders.topic("tested-to-pay", key_type=str, value_type=int).send(key=customer, value=amount)


@payments.agent(payments.topic("tested-to-pay", key_type=str, value_type=int))
async def pay(stream: Any) -> None:
    async for customer, amount in stream.items():
        paid[customer] += amount
