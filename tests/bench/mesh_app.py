"""One of the apps of a mesh: it passes every token that it gets on to another app, to each of them in turn."""

from __future__ import annotations

import asyncio
import os
from itertools import cycle
from typing import Any, Final

import faust

import snapkafka

NUMBER: Final = int(os.environ["MESH_NUMBER"])
APPS: Final = int(os.environ["MESH_APPS"])
#: How long it keeps a token.
KEEP_S: Final = float(os.environ["MESH_KEEP_S"])

app = faust.App(
    f"mesh-{NUMBER}",
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    topic_disable_leader=True,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

topics = [app.topic(f"mesh-{number}", key_type=str, value_serializer="json") for number in range(APPS)]
others = cycle([*topics[NUMBER + 1 :], *topics[:NUMBER]])
seen = app.Table("seen", default=int, partitions=1)


@app.agent(topics[NUMBER], name="pass_on")
async def pass_on(stream: Any) -> None:
    async for key, token in stream.items():
        await asyncio.sleep(KEEP_S)
        seen[key] += 1
        await next(others).send(key=key, value=token)
