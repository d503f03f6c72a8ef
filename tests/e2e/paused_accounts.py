"""The accounts service with its recording agent paused: it takes nothing from its channel, for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from snapkafka.demo.accounts import app


async def never(stream: Any) -> None:
    await asyncio.Event().wait()
    async for _ in stream:
        pass


def _pause(*args: Any, **kwargs: Any) -> None:
    app.snapkafka.recorder.agent.fun = never


if app.configured:
    _pause()
else:
    app.on_after_configured.connect(_pause, weak=False)
