"""Tables: plain, in RocksDB, of sets, windowed in each way; and an agent that awaits between read and write."""

from __future__ import annotations

import asyncio
from typing import Any

import faust

from tests.features.apps.common import count, each, new_app, source, target
from tests.features.apps.looks import look_over_awaits

app = new_app(table_cleanup_interval=1.0)

#: Short, as nothing is cleaned away before the test says so (`clean_when_told`).
EXPIRES = 1.0

count(app, "plain", app.Table("plain", key_type=str, value_type=int, default=int))

deleting = app.Table("deleting", key_type=str, value_type=int, default=int)


@each(app, "deleting")
async def count_to_five(event: Any) -> dict[str, Any]:
    """Deletes keys, too: tombstones are no markers."""
    deleting[event.key] += 1
    if deleting[event.key] == 5:
        del deleting[event.key]
    return {"count": deleting.get(event.key)}


rocks = app.Table("rocks", key_type=str, value_type=int, default=int, store="rocksdb:rocks")
count(app, "rocks", rocks)

sets = app.SetTable("sets", key_type=str, value_type=int)


@each(app, "sets")
async def collect(event: Any) -> dict[str, Any]:
    members = sets[event.key]
    members.add(event.value["n"])
    if event.value["n"] % 3 == 0:
        members.discard(event.value["n"])
    return {"size": len(members)}


slow = app.Table("slow", key_type=str, value_type=int, default=int)


@each(app, "slow")
async def count_slowly(event: Any) -> dict[str, Any]:
    """Its events run across cuts: each finishes in the colour that it began with."""
    before = slow[event.key]
    await asyncio.sleep(0.05)
    slow[event.key] = before + 1
    return {"count": slow[event.key]}


class Timed(faust.Record, serializer="json"):  # type: ignore[call-arg]
    """A value that carries its own time."""

    n: int
    at: float


by_stream = (
    app.Table("by_stream", key_type=str, value_type=int, default=int)
    .tumbling(4.0, expires=EXPIRES, key_index=True)
    .relative_to_stream()
)


count(app, "by-stream", by_stream, lambda window: window.current())

by_field = (
    app.Table("by_field", key_type=str, value_type=int, default=int)
    .hopping(4.0, 2.0, expires=EXPIRES)
    .relative_to_field(Timed.at)
)


timed = source(app, "by-field", value_type=Timed)
count(app, "by-field", by_field, lambda window: window.current(), of=timed)

closed_out = target(app, "closed-out")


async def window_closed(key: Any, value: Any) -> None:
    """Runs in Faust's cleaning task, outside any event."""
    name, (start, end) = key
    await closed_out.send(key=name, value={"window": [start, end], "count": value}, partition=0)


by_now = app.Table("by_now", key_type=str, value_type=int, default=int).tumbling(4.0).relative_to_now()


# Faust's "now" is the latest window that was written, so without expiry all of it is one window.
count(app, "by-now", by_now, lambda window: window.value())

close_out = target(app, "close-out")
closing = (
    app.Table("closing", key_type=str, value_type=int, default=int, on_window_close=window_closed)
    .tumbling(4.0, expires=EXPIRES)
    .relative_to_stream()
)


count(app, "closing", closing, lambda window: window.current(), out=close_out)

summed = app.Table("summed", key_type=str, value_type=int, default=int)


@each(app, "summed", concurrency=3)
async def sums_up(event: Any) -> dict[str, Any]:
    """Reads the whole table after a while; what it holds by then depends on the others, and is not told.

    Not each after as long: three that begin together would read together, before another begins.
    """
    summed[event.key] = event.value["n"]
    await asyncio.sleep(0.1 + 0.1 * (event.value["n"] % 5))
    known = sum(value for _, value in summed.items()) + len(summed) + ("k1" in summed)
    return {"known": known > 0}


look_over_awaits(app)

asked_to_clean = asyncio.Event()


@app.agent(source(app, "clean"), name="clean")
async def told(stream: Any) -> None:
    async for _ in stream:
        asked_to_clean.set()


def clean_on_signal(table: Any) -> None:
    """Faust's cleaning goes by the clock, and on a busy machine windows would expire under the load, in one run and not
    in the other."""
    clean = table._del_old_keys

    async def cleaned() -> None:
        if asked_to_clean.is_set():
            await clean()

    table._del_old_keys = cleaned


for windowed in (by_stream, by_field, closing):
    clean_on_signal(windowed.table)
