"""`processing_guarantee="exactly_once"`: what a service sends to topics that it reads itself leaves in transactions."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.features.apps.common import commit_on_signal, new_app, saw, source, target, trace_on_signal

app = new_app(
    processing_guarantee="exactly_once",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=float(os.environ.get("FEATURES_COMMIT", "0.4")),
)
SLEEP = float(os.environ.get("FEATURES_SLEEP", "0"))

exact_mid = target(app, "exact-mid")
exact_out = target(app, "exact-out")
again_out = target(app, "again-out")
exact = app.Table("exact", key_type=str, value_type=int, default=int)


@app.agent(source(app, "exact"), name="exact")
async def counts(stream: Any) -> None:
    """The table and the topic that is read again are in transactions, the output is not."""
    async for event in stream.events():
        exact[event.key] += 1
        await exact_mid.send(**saw("exact", event, count=exact[event.key]))
        await exact_out.send(**saw("exact", event, count=exact[event.key]))


@app.agent(exact_mid, name="again")
async def reads_again(stream: Any) -> None:
    async for event in stream.events():
        await asyncio.sleep(SLEEP)
        await again_out.send(**saw("again", event))


commit_on_signal(app)
trace_on_signal(app)
