"""How messages leave: by `send`, by `send_soon`, and as the writes of a table."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import each, new_app, saw, source, target

app = new_app(broker_commit_interval=0.4, autodiscover=["tests.features.apps.found"])

written = app.Table("written", key_type=str, value_type=int, default=int)


@each(app, "written", soon=True)
async def writes(event: Any) -> dict[str, Any]:
    written[event.key] += 1
    await asyncio.sleep(0.002)
    return {"count": written[event.key]}


both_out = target(app, "both-out")


@app.agent(source(app, "both"), name="both")
async def both_ways(stream: Any) -> None:
    """To the same topic by both ways: seqs and offsets have to rise together all the same."""
    async for event in stream.events():
        if event.value["n"] % 2:
            both_out.send_soon(**saw("both", event))
        else:
            await both_out.send(**saw("both", event), force=True)
