"""An agent that acknowledges by itself, and raises at its first record."""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app(broker_commit_interval=0.3, broker_session_timeout=3.0, broker_heartbeat_interval=1.0)

out = target(app, "by-hand-out")


@app.agent(source(app, "by-hand"), name="by-hand")
async def by_hand(stream: Any) -> None:
    async for event in stream.noack().events():
        if event.value == "raise":
            raise ValueError("before it is acknowledged")
        await out.send(key=event.key, value=event.value)
        event.ack()
