"""Tables with a standby: what one worker writes, another one keeps up with."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.features.apps.common import new_app, saw, source, target

app = new_app(table_standby_replicas=1, broker_session_timeout=6.0, broker_heartbeat_interval=1.0)

kept_out = target(app, "kept-out")
kept = app.Table("kept", key_type=str, value_type=int, default=int, standby_buffer_size=1)


@app.agent(source(app, "kept"), name="kept")
async def keeps(stream: Any) -> None:
    async for event in stream.events():
        kept[event.key] += 1
        await asyncio.sleep(0.002)
        await kept_out.send(**saw("kept", event, count=kept[event.key]))
