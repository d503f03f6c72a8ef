"""Reads the changelog of another app's table (`counting`) as an input."""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app()

out = target(app, "out")


@app.agent(source(app, "counted-changelog"), name="audit")
async def audit(stream: Any) -> None:
    async for event in stream.events():
        await out.send(key=event.key, value=event.value)
