"""A Faust app that keeps what it is sent: each record is an amount for the purse of its key."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

app = faust.App(
    os.environ["COINS_APP_ID"],
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=2,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

coins = app.topic(os.environ["COINS_APP_ID"] + "-in", key_serializer="raw", value_serializer="json")
purses = app.Table("purses", default=int, partitions=2)


@app.agent(coins, name="keep")
async def keep(stream: Any) -> None:
    async for event in stream.events():
        purses[event.key.decode()] += event.value
