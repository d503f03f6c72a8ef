"""Two agents on one topic, with a table each in RocksDB: what both did to a key can be told apart."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka

app = faust.App(
    os.environ["FEATURES_ID"],
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="rocksdb://",
    topic_partitions=1,
    datadir=os.environ["FEATURES_DATA"],
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=0.2,
    consumer_auto_offset_reset=os.environ.get("FEATURES_RESET", "earliest"),
    processing_guarantee=os.environ.get("FEATURES_GUARANTEE", "at_least_once"),
)
snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])

source = app.topic(f"{os.environ['FEATURES_ID']}-in", key_type=str, value_type=str)
out = app.topic(f"{os.environ['FEATURES_ID']}-out", key_type=str, value_type=str)
tables = {name: app.Table(f"seen-{name}", default=str, partitions=1) for name in ("x", "y")}


def agent(name: str) -> Any:
    @app.agent(source, name=name)
    async def read(stream: Any) -> None:
        async for key, value in stream.items():
            tables[name][key] = tables[name][key] + value
            await out.send(key=f"{name}:{key}", value=tables[name][key])

    return read


agents = [agent(name) for name in ("x", "y")]
