"""An app that commits its positions seldom: a crash leaves effects of events that it will run again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import commit_when_told, new_app, saw, source, target

COMMIT = float(os.environ.get("FEATURES_COMMIT", "600"))
app = new_app(broker_commit_interval=COMMIT, broker_session_timeout=6.0, broker_heartbeat_interval=1.0)
SLEEP = float(os.environ["FEATURES_SLEEP"])
#: An event takes its time where this is not said, or this file is there.
SLOW = os.environ.get("FEATURES_SLOW")


def seconds() -> float:
    return SLEEP if SLOW is None or Path(SLOW).exists() else 0.0


counted_out = target(app, "counted-out")
counted = app.Table("counted", key_type=str, value_type=int, default=int)


@app.agent(source(app, "counted"), name="counted")
async def count(stream: Any) -> None:
    async for event in stream.events():
        counted[event.key] += 1
        await counted_out.send(**saw("counted", event))
        await asyncio.sleep(seconds())


commit_when_told(app)
