"""Agents that acknowledge by themselves: one raises at its first record, some hold records back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app(
    broker_commit_interval=0.3,
    broker_session_timeout=3.0,
    broker_heartbeat_interval=1.0,
    stream_wait_empty="FEATURES_LET_GO" not in os.environ,
)
#: As long as this file is not there, who is handed "hold" does not acknowledge it.
LET_GO = Path(os.environ.get("FEATURES_LET_GO", "let go"))

held: list[Any] = []


def let_go() -> bool:
    return LET_GO.exists()


async def work_on(event: Any, out: Any) -> None:
    if event.value == "raise":
        raise ValueError("before it is acknowledged")
    await out.send(key=event.key, value=event.value)
    if event.value == "hold" and not let_go():
        held.append(event)
    else:
        event.ack()


by_hand_out = target(app, "by-hand-out")


@app.agent(source(app, "by-hand"), name="by-hand")
async def by_hand(stream: Any) -> None:
    async for event in stream.noack().events():
        await work_on(event, by_hand_out)


in_batches_out = target(app, "in-batches-out")


@app.agent(source(app, "in-batches"), name="in-batches")
async def in_batches(stream: Any) -> None:
    async for batch in stream.noack_take(2, within=0.2):
        for event in batch:
            await work_on(event, in_batches_out)
