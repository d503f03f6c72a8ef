"""Faust 0.15.3 over confluent:// on a fresh cluster: does an app with a table get past recovery? Without snapkafka.

    BOOTSTRAP=127.0.0.1:9092 python faust_confluent_recovery.py SCHEME     # kafka or confluent

Creates its topics, starts a worker, sends one event, and prints whether the agent has processed it within 60 s.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import faust
from aiokafka import AIOKafkaProducer  # noqa: TID251 -- this runs without snapkafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic  # noqa: TID251 -- likewise

BOOTSTRAP, SCHEME = os.environ["BOOTSTRAP"], sys.argv[1] if len(sys.argv) > 1 else "confluent"
ID = f"upstream-{SCHEME}-{os.getpid()}"
WITHIN_S = 60.0

app = faust.App(
    ID,
    broker=f"{SCHEME}://{BOOTSTRAP}",
    store="memory://",
    topic_partitions=1,
    web_enabled=False,
    datadir=f"/tmp/{ID}",
)
source = app.topic(f"{ID}-in", key_serializer="raw", value_serializer="raw", partitions=1)
counts = app.Table("counts", default=int, partitions=1)
processed = asyncio.Event()


@app.agent(source)
async def count(stream: Any) -> None:
    async for event in stream.events():
        counts[event.key.decode()] += 1
        processed.set()


async def main() -> int:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic(f"{ID}-in", 1, 1), NewTopic(f"{ID}-counts-changelog", 1, 1)])
    await admin.close()
    starting = asyncio.ensure_future(app.start())
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        await producer.send_and_wait(f"{ID}-in", b"1", b"k")
    began = time.monotonic()
    waiting = asyncio.ensure_future(processed.wait())
    await asyncio.wait([waiting, starting], timeout=WITHIN_S, return_when=asyncio.FIRST_EXCEPTION)
    if starting.done() and (error := starting.exception()) is not None:
        print(f"{SCHEME}: the app crashed: {error!r}")
    recovery = app.tables.recovery
    state = "processed the event" if processed.is_set() else "has not processed the event"
    print(f"{SCHEME}: {state} after {time.monotonic() - began:.0f} s; in recovery: {recovery.in_recovery}")
    return 0 if processed.is_set() else 1


if __name__ == "__main__":
    status = asyncio.new_event_loop().run_until_complete(main())
    sys.stdout.flush()
    os._exit(status)
