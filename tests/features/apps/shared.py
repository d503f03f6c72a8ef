"""Tables that other workers have too: one worker writes, and the others take in what it wrote."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import new_app, saw, source, target

app = new_app(table_standby_replicas=1)
KEYS = [f"k{n}" for n in range(5)]

rates_out = target(app, "rates-out")
rates = app.GlobalTable(
    "rates",
    key_type=str,
    value_type=int,
    default=int,
    partitions=1,
    recovery_buffer_size=1,
    use_partitioner=True,
)


@app.agent(source(app, "rates"), name="rates")
async def sets_rates(stream: Any) -> None:
    """Sets, and does not add: Faust reads back what it wrote, and its last value may be undone by the one before."""
    async for event in stream.events():
        rates[event.value["key"]] = event.value["n"]
        await rates_out.send(**saw("rates", event))


groups_out = target(app, "groups-out")
groups = app.SetGlobalTable("groups", key_type=str, value_type=int, recovery_buffer_size=1)


@app.agent(source(app, "groups"), name="groups")
async def joins_groups(stream: Any) -> None:
    async for event in stream.events():
        groups[event.value["key"]].add(event.value["n"])
        await groups_out.send(**saw("groups", event))


orders_out = target(app, "orders-out")


@app.agent(source(app, "orders"), name="orders", concurrency=8)
async def uses_rates(stream: Any) -> None:
    """Reads all rates after a while; what they are is a matter of luck, and not told."""
    async for event in stream.events():
        await asyncio.sleep(1)
        known = [rates.get(key) for key in KEYS]
        await orders_out.send(**saw("orders", event, known=len(known)))


members_out = target(app, "members-out")


@app.agent(source(app, "members"), name="members", concurrency=8)
async def looks_at_groups(stream: Any) -> None:
    async for event in stream.events():
        await asyncio.sleep(1)
        known = [len(groups[key]) for key in KEYS]
        await members_out.send(**saw("members", event, known=len(known)))


kept_out = target(app, "kept-out")
kept = app.Table("kept", key_type=str, value_type=int, default=int)


@app.agent(source(app, "kept"), name="kept")
async def keeps(stream: Any) -> None:
    """Each worker writes its part of the table, and is the standby of the other one's."""
    async for event in stream.events():
        kept[event.key] += 1
        await kept_out.send(**saw("kept", event, count=kept[event.key]))
