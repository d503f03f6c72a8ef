"""What `going` gets it sends on to `coming`: so a marker reaches whoever has that partition. By FEATURES_KIND:

- rolling: no tables, as in an app that has some Faust loses events around a rebalance (`test_recovery.py`);
- queueing: what `going` sends at once waits long for `coming`;
- counting: each of the two counts in a table.

No agent sees a marker, or a header of ours where snapkafka is there to take it off.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from tests.features.apps.common import BROKEN, new_app, source, target

KIND = os.environ.get("FEATURES_KIND", "counting")
TAKES_OFF = os.environ.get("SNAPKAFKA") != "off" and BROKEN not in ("IncomingRecords", "watch_streams")

app = new_app(broker_commit_interval=0.4, broker_session_timeout=6.0, broker_heartbeat_interval=1.0)
mid, out = target(app, "mid"), target(app, "out")
counts: dict[str, Any] = {
    name: app.Table(name, key_type=str, value_type=int, default=int) if KIND == "counting" else {}
    for name in ("gone", "come")
}


def count(name: str, event: Any) -> None:
    assert event.value is not None, "a marker reached an agent"
    assert not TAKES_OFF or "_sk" not in event.headers
    counts[name][event.key] = counts[name].get(event.key, 0) + 1


@app.agent(source(app, "going"), name="going")
async def going(stream: Any) -> None:
    async for event in stream.events():
        partition = 0 if KIND == "queueing" else event.message.partition
        count("gone", event)
        await asyncio.sleep(0.01)
        await mid.send(key=event.key, value=event.value, partition=partition)


@app.agent(mid, name="coming")
async def coming(stream: Any) -> None:
    async for event in stream.events():
        count("come", event)
        await asyncio.sleep(1.5 if KIND == "queueing" else 0)
        await out.send(key=event.key, value=event.value)
