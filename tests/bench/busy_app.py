"""The app of the benches: a table write and a send for each event."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import faust

import snapkafka
from tests.bench.in_use import give_back, of_malloc, of_python

ID = os.environ["BUSY_APP_ID"]
#: How long an event waits, in seconds.
PAUSE = float(os.environ.get("BUSY_PAUSE", "0"))
#: Of its topics.
PARTITIONS = int(os.environ.get("BUSY_PARTITIONS", "1"))
#: Where to write, every second, how much memory is in use.
MEMORY = os.environ.get("BUSY_MEMORY", "")

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])  # SNAPKAFKA=off makes it nothing

source = app.topic(f"{ID}-in", key_type=str, value_serializer="json")
target = app.topic(f"{ID}-out", key_type=str, value_serializer="json")
counts = app.Table("counts", default=int, partitions=PARTITIONS)


@app.agent(source)
async def count(stream: Any) -> None:
    """Count the events of a key."""
    async for key, value in stream.items():
        if PAUSE:
            await asyncio.sleep(PAUSE)
        counts[key] += 1
        await target.send(key=key, value=value)


def write_memory() -> None:
    """Write how many bytes are in use."""
    give_back()
    draft = Path(f"{MEMORY}.draft")
    draft.write_text(str(of_python() + of_malloc()))
    draft.replace(MEMORY)


async def report_memory() -> None:
    """Write it once a second."""
    write_memory()


if MEMORY:
    app.timer(1.0)(report_memory)
