"""One service with data of people: in keys, windows, sets, values, headers, and in messages that wait.

orders (external) -> take: counts, people, windows, cities -> parcels -> ship: shipped
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import faust

import snapkafka

NAME = os.environ["PEOPLE_APP"]
WINDOW_S = 60.0

app = faust.App(
    NAME,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    topic_disable_leader=True,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    web_enabled=False,
    env={},
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])
orders = app.topic(f"{NAME}-orders", key_type=str, value_serializer="json")
parcels = app.topic(f"{NAME}-parcels", key_serializer="json", value_serializer="json", partitions=1)
counts = app.Table("counts", key_type=str, value_type=int, default=int, partitions=1)
people = app.Table("people", key_type=str, partitions=1)
windows = app.Table("windows", key_type=str, value_type=int, default=int, partitions=1).tumbling(WINDOW_S)
cities = app.SetTable("cities", key_type=str, value_type=str, partitions=1)
shipped = app.Table("shipped", key_type=str, value_type=int, default=int, partitions=1)


def held() -> bool:
    """Are parcels to wait?"""
    return Path(os.environ.get("PEOPLE_HOLD", os.devnull)).is_file()


@app.agent(orders, name="take")
async def take(stream: Any) -> None:
    async for name, order in stream.items():
        counts[name] += order["n"]
        windows[name] += order["n"]
        people[name] = {"mail": order["mail"], "friend": order["friend"]}
        cities[order["city"]].add(name)
        headers = {"mail": order["mail"].encode(), "trace": b"%d" % order["id"]}
        await parcels.send(key={"name": name, "id": order["id"]}, value=order, headers=headers)


@app.agent(parcels, name="ship")
async def ship(stream: Any) -> None:
    async for event in stream.events():
        while held():  # noqa: ASYNC110 -- the test takes it away
            await asyncio.sleep(0.02)
        shipped[event.key["name"]] += 1
