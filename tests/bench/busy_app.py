"""The apps of the benches: one that counts, one that waits for something in every event."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import faust

import snapkafka
from tests.bench.in_use import give_back, of_malloc, of_python

ID = os.environ["BUSY_APP_ID"]
KIND = os.environ.get("BUSY_KIND", "count")
#: How long an event waits, in seconds: from so much up to so much.
WAIT_FROM, WAIT_TO = (float(s) for s in os.environ.get("BUSY_WAIT", "0.05 0.2").split())
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


async def count(stream: Any) -> None:
    """A table write and a send for each event."""
    async for key, value in stream.items():
        counts[key] += 1
        await target.send(key=key, value=value)


async def wait(stream: Any) -> None:
    """As `count`, but each event waits first, some longer than others."""
    async for key, value in stream.items():
        await asyncio.sleep(WAIT_FROM + (WAIT_TO - WAIT_FROM) * (value["n"] * 7919 % 151) / 150)
        counts[key] += 1
        await target.send(key=key, value=value)


def write_memory() -> None:
    """Write how many bytes are in use."""
    give_back()
    draft = Path(f"{MEMORY}.draft")
    draft.write_text(str(of_python() + of_malloc()))
    draft.replace(MEMORY)


async def report_memory() -> None:
    """Once a second."""
    write_memory()


if MEMORY:
    app.timer(1.0)(report_memory)
counts = app.Table("counts", default=int, partitions=PARTITIONS)
app.agent(source, name=KIND)({"count": count, "wait": wait}[KIND])
