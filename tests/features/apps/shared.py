"""Tables that other workers have too: one worker writes, and the others take in what it wrote."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import count, each, new_app

app = new_app(table_standby_replicas=1)
KEYS = [f"k{n}" for n in range(5)]

rates = app.GlobalTable(
    "rates",
    key_type=str,
    value_type=int,
    default=int,
    partitions=1,
    recovery_buffer_size=1,
    use_partitioner=True,
)


@each(app, "rates")
async def sets_rates(event: Any) -> dict[str, Any]:
    """Sets, and does not add: Faust reads back what it wrote, and its last value may be undone by the one before."""
    rates[event.value["key"]] = event.value["n"]
    return {}


groups = app.SetGlobalTable("groups", key_type=str, value_type=int, recovery_buffer_size=1)


@each(app, "groups")
async def joins_groups(event: Any) -> dict[str, Any]:
    groups[event.value["key"]].add(event.value["n"])
    return {}


@each(app, "orders", concurrency=8)
async def uses_rates(event: Any) -> dict[str, Any]:
    """Reads all rates after a while; what they are is a matter of luck, and not told."""
    await asyncio.sleep(1)
    known = [rates.get(key) for key in KEYS]
    return {"known": len(known)}


@each(app, "members", concurrency=8)
async def looks_at_groups(event: Any) -> dict[str, Any]:
    await asyncio.sleep(1)
    known = [len(groups[key]) for key in KEYS]
    return {"known": len(known)}


# Each worker writes its part of the table, and is the standby of the other one's.
count(app, "kept", app.Table("kept", key_type=str, value_type=int, default=int))
