"""Tables: plain, in RocksDB, of sets, windowed in each way; and an agent that awaits between read and write."""

from __future__ import annotations

import asyncio
from typing import Any

import faust

from tests.features.apps.common import new_app, saw, source, target
from tests.features.apps.looks import look_over_awaits

app = new_app(table_cleanup_interval=1.0)

#: Short, as nothing is cleaned away before the test says so (`clean_when_told`).
EXPIRES = 1.0

plain_out = target(app, "plain-out")
plain = app.Table("plain", key_type=str, value_type=int, default=int)


@app.agent(source(app, "plain"), name="plain")
async def count(stream: Any) -> None:
    async for event in stream.events():
        plain[event.key] += 1
        await plain_out.send(**saw("plain", event, count=plain[event.key]))


deleting_out = target(app, "deleting-out")
deleting = app.Table("deleting", key_type=str, value_type=int, default=int)


@app.agent(source(app, "deleting"), name="deleting")
async def count_to_five(stream: Any) -> None:
    """Deletes keys, too: tombstones are no markers."""
    async for event in stream.events():
        deleting[event.key] += 1
        if deleting[event.key] == 5:
            del deleting[event.key]
        await deleting_out.send(**saw("deleting", event, count=deleting.get(event.key)))


rocks_out = target(app, "rocks-out")
rocks = app.Table("rocks", key_type=str, value_type=int, default=int, store="rocksdb:rocks")


@app.agent(source(app, "rocks"), name="rocks")
async def count_in_rocksdb(stream: Any) -> None:
    async for event in stream.events():
        rocks[event.key] += 1
        await rocks_out.send(**saw("rocks", event, count=rocks[event.key]))


sets_out = target(app, "sets-out")
sets = app.SetTable("sets", key_type=str, value_type=int)


@app.agent(source(app, "sets"), name="sets")
async def collect(stream: Any) -> None:
    async for event in stream.events():
        members = sets[event.key]
        members.add(event.value["n"])
        if event.value["n"] % 3 == 0:
            members.discard(event.value["n"])
        await sets_out.send(**saw("sets", event, size=len(members)))


slow_out = target(app, "slow-out")
slow = app.Table("slow", key_type=str, value_type=int, default=int)


@app.agent(source(app, "slow"), name="slow")
async def count_slowly(stream: Any) -> None:
    """Its events run across cuts: each finishes in the colour that it began with."""
    async for event in stream.events():
        before = slow[event.key]
        await asyncio.sleep(0.05)
        slow[event.key] = before + 1
        await slow_out.send(**saw("slow", event, count=slow[event.key]))


class Timed(faust.Record, serializer="json"):  # type: ignore[call-arg]
    """A value that carries its own time."""

    n: int
    at: float


by_stream_out = target(app, "by-stream-out")
by_stream = (
    app.Table("by_stream", key_type=str, value_type=int, default=int)
    .tumbling(4.0, expires=EXPIRES, key_index=True)
    .relative_to_stream()
)


@app.agent(source(app, "by-stream"), name="by-stream")
async def count_by_stream_time(stream: Any) -> None:
    async for event in stream.events():
        by_stream[event.key] += 1
        await by_stream_out.send(**saw("by-stream", event, count=by_stream[event.key].current()))


by_field_out = target(app, "by-field-out")
by_field = (
    app.Table("by_field", key_type=str, value_type=int, default=int)
    .hopping(4.0, 2.0, expires=EXPIRES)
    .relative_to_field(Timed.at)
)


@app.agent(source(app, "by-field", value_type=Timed), name="by-field")
async def count_by_field(stream: Any) -> None:
    async for event in stream.events():
        by_field[event.key] += 1
        await by_field_out.send(**saw("by-field", event, count=by_field[event.key].current()))


closed_out = target(app, "closed-out")


async def window_closed(key: Any, value: Any) -> None:
    """Runs in Faust's cleaning task, outside any event."""
    name, (start, end) = key
    await closed_out.send(key=name, value={"window": [start, end], "count": value}, partition=0)


by_now_out = target(app, "by-now-out")
by_now = app.Table("by_now", key_type=str, value_type=int, default=int).tumbling(4.0).relative_to_now()


@app.agent(source(app, "by-now"), name="by-now")
async def count_now(stream: Any) -> None:
    """Faust's "now" is the latest window that was written, so without expiry all of it is one window."""
    async for event in stream.events():
        by_now[event.key] += 1
        await by_now_out.send(**saw("by-now", event, count=by_now[event.key].value()))


close_out = target(app, "close-out")
closing = (
    app.Table("closing", key_type=str, value_type=int, default=int, on_window_close=window_closed)
    .tumbling(4.0, expires=EXPIRES)
    .relative_to_stream()
)


@app.agent(source(app, "closing"), name="closing")
async def count_until_closed(stream: Any) -> None:
    async for event in stream.events():
        closing[event.key] += 1
        await close_out.send(**saw("closing", event, count=closing[event.key].current()))


summed_out = target(app, "summed-out")
summed = app.Table("summed", key_type=str, value_type=int, default=int)


@app.agent(source(app, "summed"), name="summed", concurrency=3)
async def sums_up(stream: Any) -> None:
    """Reads the whole table after a while; what it holds by then depends on the others, and is not told.

    Not each after as long: three that begin together would read together, before another begins.
    """
    async for event in stream.events():
        summed[event.key] = event.value["n"]
        await asyncio.sleep(0.1 + 0.1 * (event.value["n"] % 5))
        known = sum(value for _, value in summed.items()) + len(summed) + ("k1" in summed)
        await summed_out.send(**saw("summed", event, known=known > 0))


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
