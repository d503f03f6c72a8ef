"""What `going` sends at once waits long for `coming`; a marker comes to lie behind it."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app(broker_commit_interval=0.3)

mid, out = target(app, "mid"), target(app, "out")


@app.agent(source(app, "going"), name="going")
async def going(stream: Any) -> None:
    async for event in stream.events():
        await mid.send(key=event.key, value=event.value, partition=0)


@app.agent(mid, name="coming")
async def coming(stream: Any) -> None:
    async for event in stream.events():
        await asyncio.sleep(1.5)
        await out.send(key=event.key, value=event.value, partition=0)
