"""How messages leave: with their event's commit (`stream_publish_on_commit`), by a thread (`producer_threaded`)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import new_app, saw, source, target

app = new_app(
    stream_publish_on_commit=True,
    producer_threaded=True,
    broker_commit_interval=0.4,
    autodiscover=["tests.features.apps.found"],
)

attached_mid = target(app, "attached-mid")
attached_out = target(app, "attached-out")


@app.agent(source(app, "attached"), name="attached")
async def attaches(stream: Any) -> None:
    """Its send leaves with the commit, long after the event."""
    async for event in stream.events():
        await attached_mid.send(**saw("attached", event))


@app.agent(attached_mid, name="attached-again")
async def attaches_again(stream: Any) -> None:
    async for event in stream.events():
        await attached_out.send(**saw("attached-again", event))


forced_out = target(app, "forced-out")


@app.agent(source(app, "forced"), name="forced")
async def sends_at_once(stream: Any) -> None:
    async for event in stream.events():
        await forced_out.send(**saw("forced", event), force=True)


threaded_out = target(app, "threaded-out")
threaded = app.Table("threaded", key_type=str, value_type=int, default=int)


@app.agent(source(app, "threaded"), name="threaded")
async def by_thread(stream: Any) -> None:
    """The table and `send_soon` go by the thread, where there is one."""
    async for event in stream.events():
        threaded[event.key] += 1
        await asyncio.sleep(0.002)
        threaded_out.send_soon(**saw("threaded", event, count=threaded[event.key]))


both_out = target(app, "both-out")


@app.agent(source(app, "both"), name="both")
async def both_ways(stream: Any) -> None:
    """To the same topic by both ways: seqs and offsets have to rise together all the same."""
    async for event in stream.events():
        if event.value["n"] % 2:
            both_out.send_soon(**saw("both", event))
        else:
            await both_out.send(**saw("both", event), force=True)
