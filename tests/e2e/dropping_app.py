"""A Faust app of two releases: the second, by DROPPING_APP_RELEASE=2, has one table less."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

APP = os.environ["DROPPING_APP_ID"]

app = faust.App(
    APP,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"], changelog_lag="24h")

orders = app.topic(f"{APP}-orders", key_serializer="raw", value_serializer="raw")
counts = app.Table("counts", default=int, partitions=1)
lengths = (
    app.Table("lengths", default=int, partitions=1) if os.environ.get("DROPPING_APP_RELEASE") != "2" else None
)


@app.agent(orders)
async def count(stream: Any) -> None:
    async for event in stream.events():
        key = event.key.decode()
        counts[key] += 1
        if lengths is not None:
            lengths[key] += len(event.value)
