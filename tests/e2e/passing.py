"""An app whose agent passes a token on to itself, hop after hop, until a file says that it is enough."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import faust

import snapkafka

ID = os.environ["PASSING_ID"]
ENOUGH = Path(os.environ["PASSING_ENOUGH"])

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=2,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

hops = app.topic(f"{ID}-hops", key_type=str, value_serializer="json")


def is_enough() -> bool:
    return ENOUGH.exists()


@app.agent(hops, name="hop")
async def hop(stream: Any) -> None:
    async for event in stream.events():
        if not is_enough():
            await asyncio.sleep(0.05)
            await hops.send(key=str(event.value), value=event.value + 1)
