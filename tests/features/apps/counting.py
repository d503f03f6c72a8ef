"""A table whose changelog another app reads (`auditing`)."""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app()

counted = app.Table("counted", default=int, partitions=2)
out = target(app, "out")


@app.agent(source(app, "going"), name="going")
async def going(stream: Any) -> None:
    async for event in stream.events():
        counted[event.key] += 1
        await out.send(key=event.key, value=event.value)
