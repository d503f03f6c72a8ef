"""Two agents on one topic, with a table each in RocksDB: what both did to a key can be told apart."""

from __future__ import annotations

import os
from typing import Any

from tests.features.apps.common import new_app, source, target

app = new_app(
    topic_partitions=1,
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=0.2,
    consumer_auto_offset_reset=os.environ.get("FEATURES_RESET", "earliest"),
)
letters, out = source(app, "letters"), target(app, "out")
tables = {name: app.Table(f"seen-{name}", default=str, partitions=1) for name in ("x", "y")}


def agent(name: str) -> Any:
    @app.agent(letters, name=name)
    async def read(stream: Any) -> None:
        async for key, value in stream.items():
            tables[name][key] = tables[name][key] + value
            await out.send(key=f"{name}:{key}", value=tables[name][key])

    return read


agents = [agent(name) for name in ("x", "y")]
