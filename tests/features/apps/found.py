"""An agent of the app in `calls` that only autodiscovery finds."""

from __future__ import annotations

from typing import Any

from tests.features.apps.calls import app
from tests.features.apps.common import saw, source, target

found_out = target(app, "found-out")


@app.agent(source(app, "found"), name="found")
async def found(stream: Any) -> None:
    async for event in stream.events():
        await found_out.send(**saw("found", event), force=True)
