"""An app in a cycle with itself: what `going` sends `coming` reads, so a marker reaches whoever has that partition.

No tables: in an app that has some Faust loses events around a rebalance (`test_recovery.py`), with or without us.
"""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app(broker_commit_interval=0.5, broker_session_timeout=6.0, broker_heartbeat_interval=1.0)

mid, out = target(app, "mid"), target(app, "out")


@app.agent(source(app, "going"), name="going")
async def going(stream: Any) -> None:
    async for event in stream.events():
        await mid.send(key=event.key, value=event.value, partition=event.message.partition)


@app.agent(mid, name="coming")
async def coming(stream: Any) -> None:
    async for event in stream.events():
        await out.send(key=event.key, value=event.value)
