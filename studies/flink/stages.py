"""The two stages as Faust apps: each counts per key, and passes the record on."""

from __future__ import annotations

import os
from typing import Any, Final

import faust

import snapkafka

from .settings import PARTITIONS

SOURCE, TARGET = os.environ["STAGE_SOURCE"], os.environ["STAGE_TARGET"]
ID: Final = os.environ["STAGE_ID"]

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

source = app.topic(SOURCE, key_type=str, value_serializer="json")
target = app.topic(TARGET, key_type=str, value_serializer="json")
counts = app.Table("counts", default=int, partitions=PARTITIONS)


async def count(stream: Any) -> None:
    async for key, value in stream.items():
        counts[key] += 1
        await target.send(key=key, value=value)


app.agent(source, name="count")(count)
