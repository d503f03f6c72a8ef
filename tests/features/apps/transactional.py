"""`processing_guarantee="exactly_once"`: what a service sends to topics that it reads itself leaves in transactions."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.features.apps.common import commit_on_signal, each, new_app, saw, target, trace_on_signal

app = new_app(
    processing_guarantee="exactly_once",
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=float(os.environ.get("FEATURES_COMMIT", "0.4")),
)
SLEEP = float(os.environ.get("FEATURES_SLEEP", "0"))

exact_mid = target(app, "exact-mid")
exact = app.Table("exact", key_type=str, value_type=int, default=int)


@each(app, "exact")
async def counts(event: Any) -> dict[str, Any]:
    """The table and the topic that is read again are in transactions, the output is not."""
    exact[event.key] += 1
    await exact_mid.send(**saw("exact", event, count=exact[event.key]))
    return {"count": exact[event.key]}


@each(app, "again", of=exact_mid)
async def reads_again(event: Any) -> dict[str, Any]:
    await asyncio.sleep(SLEEP)
    return {}


commit_on_signal(app)
trace_on_signal(app)
