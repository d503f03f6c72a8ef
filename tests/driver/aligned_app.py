"""Two Faust apps in a row, each in workers of its own: `front` passes every record on, `back` is slow and counts.

ALIGNED_ROLE is one of them, ALIGNED_ID their common prefix; `back` takes ALIGNED_SLOW_S for a record.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final

import faust

import snapkafka

ROLE: Final = os.environ["ALIGNED_ROLE"]
ID: Final = os.environ["ALIGNED_ID"]
SLOW_S: Final = float(os.environ.get("ALIGNED_SLOW_S", "0"))
PARTITIONS: Final = 2

app: Any = faust.App(
    f"{ID}-{ROLE}",
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=PARTITIONS,
    broker_commit_interval=0.5,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])
middle: Any = app.topic(f"{ID}-middle", value_type=int, key_type=str)
counts: Any = app.Table("counts", default=int, partitions=PARTITIONS)

if ROLE == "front":

    @app.agent(app.topic(f"{ID}-in", value_type=int, key_type=str), name="front")
    async def front(stream: Any) -> None:
        async for key, value in stream.items():
            counts[key] += value
            await middle.send(key=key, value=value)

else:

    @app.agent(middle, name="back")
    async def back(stream: Any) -> None:
        async for key, value in stream.items():
            if SLOW_S:
                await asyncio.sleep(SLOW_S)
            counts[key] += value
