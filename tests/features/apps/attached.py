"""`stream_publish_on_commit`, with commits when the test says so: what is sent waits, and what is written does not."""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import commit_on_signal, new_app, saw, source, target

app = new_app(stream_publish_on_commit=True, broker_commit_interval=600.0)

held_out = target(app, "held-out")
begun_out = target(app, "begun-out")


@app.agent(source(app, "held"), name="held")
async def holds_back(stream: Any) -> None:
    async for event in stream.events():
        await held_out.send(**saw("held", event))
        await begun_out.send(**saw("held", event), force=True)


commit_on_signal(app)
