"""`processing_guarantee="exactly_once"` together with what changes how messages leave, or where tables lie."""

from __future__ import annotations

import os
from typing import Any

from tests.features.apps.common import commit_on_signal, new_app, saw, source, target

app = new_app(
    processing_guarantee="exactly_once",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=float(os.environ.get("FEATURES_COMMIT", "0.4")),
)

counted_mid = target(app, "counted-mid")
counted_out = target(app, "counted-out")
counted = app.Table("counted", key_type=str, value_type=int, default=int)


@app.agent(source(app, "counted"), name="counted")
async def counts(stream: Any) -> None:
    async for event in stream.events():
        counted[event.key] += 1
        await counted_mid.send(**saw("counted", event, count=counted[event.key]))


@app.agent(counted_mid, name="counted-again")
async def reads_counted_again(stream: Any) -> None:
    async for event in stream.events():
        await counted_out.send(**saw("counted-again", event))


rocks_mid = target(app, "rocks-mid")
rocks_out = target(app, "rocks-out")
rocks = app.Table("rocks", key_type=str, value_type=int, default=int, store="rocksdb:rocks")


@app.agent(source(app, "rocks"), name="rocks")
async def counts_in_rocksdb(stream: Any) -> None:
    async for event in stream.events():
        rocks[event.key] += 1
        await rocks_mid.send(**saw("rocks", event, count=rocks[event.key]))


@app.agent(rocks_mid, name="rocks-again")
async def reads_rocks_again(stream: Any) -> None:
    async for event in stream.events():
        await rocks_out.send(**saw("rocks-again", event))


soon_mid = target(app, "soon-mid")
soon_out = target(app, "soon-out")


@app.agent(source(app, "soon"), name="soon")
async def sends_soon(stream: Any) -> None:
    async for event in stream.events():
        soon_mid.send_soon(**saw("soon", event))


@app.agent(soon_mid, name="soon-again")
async def sends_soon_again(stream: Any) -> None:
    async for event in stream.events():
        soon_out.send_soon(**saw("soon-again", event))


both_mid = target(app, "both-mid")
both_out = target(app, "both-out")


@app.agent(source(app, "both"), name="both")
async def both_ways(stream: Any) -> None:
    """To a topic that it reads, by both ways."""
    async for event in stream.events():
        if event.value["n"] % 2:
            both_mid.send_soon(**saw("both", event))
        else:
            await both_mid.send(**saw("both", event), force=True)


@app.agent(both_mid, name="both-again")
async def reads_both_again(stream: Any) -> None:
    async for event in stream.events():
        await both_out.send(**saw("both-again", event), force=True)


commit_on_signal(app)
