"""The app of the benches: a table write and a send for each event."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

ID = os.environ["BUSY_APP_ID"]

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    topic_disable_leader=True,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])  # SNAPKAFKA=off makes it nothing

source = app.topic(f"{ID}-in", key_type=str, value_serializer="json")
target = app.topic(f"{ID}-out", key_type=str, value_serializer="json")
counts = app.Table("counts", default=int, partitions=1)


@app.agent(source)
async def count(stream: Any) -> None:
    """Count the events of a key."""
    async for key, value in stream.items():
        counts[key] += 1
        await target.send(key=key, value=value)
