"""An agent that writes versions into tables of each kind, and one that looks at them in every way, over several awaits.

A version is the number of the record that it was written for; whoever looks tells which versions it has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import faust

from tests.features.apps.common import saw, source, target

#: All keys are there before anybody looks.
KEYS: Final = 11
#: So often and so long an event waits while it looks: cuts come in between, and what others write.
TIMES: Final = 8
PAUSE_S: Final = 0.05


class Version(faust.Record, serializer="json"):  # type: ignore[call-arg]
    """A value that changes in place."""

    n: int


def look_over_awaits(app: Any) -> None:
    """Define the tables and both agents."""
    versions = app.Table("versions", key_type=str, value_type=int)
    lists = app.Table("lists", key_type=str)
    records = app.Table("records", key_type=str, value_type=Version)
    members = app.SetTable("members", key_type=str, value_type=int)
    slots = app.Table("slots", key_type=str, value_type=int).tumbling(3600.0, key_index=True).relative_to(0.0)
    looks_out = target(app, "looks-out")

    @app.agent(source(app, "written"), name="written")
    async def write(stream: Any) -> None:
        async for event in stream.events():
            key, n = event.key, event.value["n"]
            versions[key] = slots[key] = n
            members[key].add(n)
            found, record = lists.get(key) if key in lists else [], None
            found.append(n)
            if key in records:
                record = records[key]
                record.n = n
            await asyncio.sleep(0.001)  # it is changed, and no record says so yet
            lists[key] = found
            records[key] = record or Version(n=n)

    async def through(found: Any) -> list[int]:
        seen = []
        for n in found:
            seen.append(n)
            await asyncio.sleep(PAUSE_S)
        return seen

    async def again(look: Callable[[], list[int]]) -> list[int]:
        seen = []
        for _ in range(TIMES):
            seen += look()
            await asyncio.sleep(PAUSE_S)
        return seen

    async def later(look: Callable[[], list[int]]) -> list[int]:
        await asyncio.sleep(TIMES * PAUSE_S)
        return look()

    def slowly() -> list[int]:
        seen = []
        for key in list(versions):
            seen.append(versions[key])
            time.sleep(PAUSE_S)
        return seen

    def held(way: str, key: str) -> Awaitable[list[int]]:
        match way:
            case "list":
                found = lists[key]
                return again(lambda: found[-1:])
            case "record":
                record = records[key]
                return again(lambda: [record.n])
            case "set":
                group = members[key]
                return later(lambda: list(group))
            case "sets":
                groups = members.copy()
                return later(lambda: [n for group in groups.values() for n in group])
            case _:
                view = versions.values()
                return later(lambda: list(view))

    ways: dict[str, Callable[[str], Awaitable[list[int]]]] = {
        "items": lambda _: through(n for _, n in versions.items()),
        "values": lambda _: through(versions.values()),
        "reversed": lambda _: through(reversed(versions.values())),
        "keys": lambda _: through(versions[key] for key in versions.keys()),  # noqa: SIM118
        "windows": lambda _: through(n for _, n in slots.items()),
        "copy": lambda _: later(lambda: list(versions.copy().values())),
        "thread": lambda _: asyncio.get_running_loop().run_in_executor(None, slowly),
        **{way: partial(held, way) for way in ("list", "record", "set", "sets", "view")},
    }

    @app.agent(source(app, "looks"), name="looks", concurrency=len(ways))
    async def look(stream: Any) -> None:
        async for event in stream.events():
            way = list(ways)[event.value["n"] % len(ways)]
            seen = await ways[way](event.key) if len(records) == KEYS else []
            await looks_out.send(**saw("looks", event, way=way, versions=sorted(set(seen))))
