"""An app that commits its positions seldom: a crash leaves effects of events that it will run again."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from faust.tables.recovery import Recovery

from tests.features.apps.common import new_app, saw, source, target

COMMIT = float(os.environ.get("FEATURES_COMMIT", "600"))
app = new_app(
    processing_guarantee=os.environ.get("FEATURES_GUARANTEE", "at_least_once"),
    broker_commit_interval=COMMIT,
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    consumer_auto_offset_reset=os.environ.get("FEATURES_RESET", "earliest"),
)
SLEEP = float(os.environ["FEATURES_SLEEP"])
#: Recovery goes on so much later than what it awaits has ended, as where the loop has that much else to do.
LINGERS = float(os.environ.get("FEATURES_LINGERS", "0"))


counted_out = target(app, "counted-out")
counted = app.Table("counted", key_type=str, value_type=int, default=int)


@app.agent(source(app, "counted"), name="counted")
async def count(stream: Any) -> None:
    async for event in stream.events():
        counted[event.key] += 1
        await counted_out.send(**saw("counted", event))
        await asyncio.sleep(SLEEP)


def linger() -> None:
    wait = Recovery._wait

    async def wait_and_linger(self: Any, *args: Any, **kwargs: Any) -> None:
        await wait(self, *args, **kwargs)
        await asyncio.sleep(LINGERS)

    Recovery._wait = wait_and_linger


if LINGERS:
    linger()
