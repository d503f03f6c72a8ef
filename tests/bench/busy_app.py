"""The app of the benches: a table write and a send for each event."""

from __future__ import annotations

import os
from typing import Any

from tests.worlds.app import new_app

ID = os.environ["BUSY_APP_ID"]

app = new_app(ID, topic_partitions=1, web_enabled=False)  # with SNAPKAFKA=off nothing is installed

source = app.topic(f"{ID}-in", key_type=str, value_serializer="json")
target = app.topic(f"{ID}-out", key_type=str, value_serializer="json")
counts = app.Table("counts", default=int, partitions=1)


@app.agent(source)
async def count(stream: Any) -> None:
    """Count the events of a key."""
    async for key, value in stream.items():
        counts[key] += 1
        await target.send(key=key, value=value)
