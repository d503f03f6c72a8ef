"""A Faust app with every kind of table, all healthy; an event `in-place` changes a value without an assignment."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import Any

import faust

import snapkafka

APP = os.environ["SMALL_APP_ID"]
#: What is wrong with its audits: "" nothing, "slow", "wrong".
FAULT = os.environ.get("AUDITED_FAULT", "")

app = faust.App(
    APP,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    topic_partitions=2,
    datadir=os.environ["SNAPKAFKA_DEMO_DATA"],
    processing_guarantee=os.environ.get("AUDITED_GUARANTEE", "at_least_once"),
    broker_commit_interval=0.3,
    table_cleanup_interval=0.5,
    web_enabled=False,
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

source = app.topic(f"{APP}-in", key_type=str, value_type=bytes, key_serializer="raw", value_serializer="raw")
target = app.topic(f"{APP}-out", key_type=str, value_type=bytes, key_serializer="raw", value_serializer="raw")


class Account(faust.Record):
    owner: str
    entries: list[int]


counts = app.Table("counts", default=int)
lists = app.Table("lists", default=list)
accounts = app.Table("accounts", value_type=Account)
windows = app.Table("windows", default=int).tumbling(2.0, expires=4.0)
members = app.SetTable("members")
world = app.GlobalTable("world", default=list, partitions=1, recovery_buffer_size=1)
stored = (
    app.Table("stored", default=list, store="rocksdb:stored") if "AUDITED_ROCKSDB" in os.environ else None
)


@app.agent(source, name="keep", concurrency=4)
async def keep(stream: Any) -> None:
    async for event in stream.events():
        key, value = event.key, event.value.decode()
        if value.startswith("in-place"):
            lists[key].append(value)
            accounts[key].entries.append(-1)
            await target.send(key=key, value=b"in-place")
            continue
        number = int(value)
        counts[key] += 1
        if counts[key] % 7 == 0:
            del counts[key]
        found = lists[key]
        found.append(number)
        await asyncio.sleep(0.02 * (number % 4))  # an event that holds a changed object across a cut
        lists[key] = found[-20:]
        account = accounts.get(key) or Account(owner=key, entries=[])
        account.entries = [*account.entries[-9:], number]
        accounts[key] = account
        windows[key] += 1
        if number % 3:
            members[key].add(f"m{number % 11}")
        else:
            members[key].discard(f"m{(number + 1) % 11}")
        if stored is not None:
            stored[key] = [*stored[key][-5:], number]
        await target.send(key=key, value=value.encode())


@app.agent(app.topic(f"{APP}-world", key_type=str, value_type=bytes, value_serializer="raw"), name="spread")
async def spread(stream: Any) -> None:
    async for event in stream.events():
        world[event.key] = [*world[event.key][-5:], event.value.decode()]


if FAULT == "slow":
    auditing: Any = importlib.import_module("snapkafka.drivers.faust.audit")
    auditing.WITHIN_S, auditing.SLICE_S, auditing.REST_S = 1.0, 0.0, 1.0
if FAULT == "wrong":
    wire: Any = importlib.import_module("snapkafka.wire.audit")
    wire.digest = lambda value: bytes(wire.DIGEST_BYTES)
