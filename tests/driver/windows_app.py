"""A Faust app with windows that expire. An event `wait` runs until a file is there, then reads the window of event
`put`, and sends what it read; the file that is named after it says when that window has gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import faust

import snapkafka

GATE = Path(os.environ["WINDOWS_GATE"])
#: How the event looks at the window: by its key, or by going on with what it holds.
LOOK = os.environ["WINDOWS_LOOK"]

app = faust.App(
    os.environ["SMALL_APP_ID"],
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    table_cleanup_interval=0.2,
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

raw = {"key_serializer": "raw", "value_serializer": "raw", "partitions": 1}
source = app.topic(os.environ["SMALL_APP_ID"] + "-in", **raw)
target = app.topic(os.environ["SMALL_APP_ID"] + "-out", **raw)
windows = app.Table("windows", default=int, partitions=1).tumbling(10.0, expires=12.0)


@app.agent(source, name="count", concurrency=2)
async def count(stream: Any) -> None:
    async for event in stream.events():
        if event.value == b"put":
            windows["w"] = 7
            await target.send(key=b"put", value=b"7")
        else:
            (key,) = windows.table.data.data
            iterator = iter(windows.table.items()) if LOOK == "iterate" else None
            await target.send(key=b"waits", value=b"")
            while not GATE.exists():  # noqa: ASYNC240 -- a test opens it, from another process
                if not windows.table.data.data:
                    GATE.with_suffix(".gone").touch()
                await asyncio.sleep(0.02)
            found = list(iterator) if iterator is not None else windows.table._get_key(key)
            await target.send(key=b"read", value=repr(found).encode())
