"""An app that never calls `snapkafka.install`: it reads `in`, and writes `out`."""

from __future__ import annotations

import os
from typing import Any

import faust

PREFIX = os.environ["FEATURES_PREFIX"]

app = faust.App(
    f"{PREFIX}shop",
    broker=f"kafka://{os.environ['FEATURES_BROKER']}",
    topic_partitions=1,
    datadir=os.environ["FEATURES_DATA"],
    broker_commit_interval=0.2,
    topic_disable_leader=True,
)
source = app.topic(f"{PREFIX}in", key_type=str, value_type=str)
out = app.topic(f"{PREFIX}out", key_type=str, value_type=str)


@app.agent(source)
async def pass_on(stream: Any) -> None:
    async for value in stream:
        await out.send(key="k", value=value)
