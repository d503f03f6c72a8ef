"""An app with all that Faust derives names for: `group_by`, `ask`, an agent without a topic, a table, replies.

After each record it tries what a fork must not do, and counts what was refused."""

from __future__ import annotations

import os
from typing import Any

import faust

import snapkafka
from snapkafka.errors import ForkIsolationError

ID = os.environ["FEATURES_ID"]

app = faust.App(
    ID,
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    topic_partitions=1,
    datadir=os.environ["FEATURES_DATA"],
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    broker_commit_interval=0.2,
    reply_create_topic=True,
    processing_guarantee=os.environ.get("FEATURES_GUARANTEE", "at_least_once"),
)
source = app.topic(f"{ID}-in", key_type=str, value_type=str)
out = app.topic(f"{ID}-out", key_type=str, value_type=str)
seen = app.Table("seen", default=str, partitions=1)


@app.agent(name="inner", value_type=str)
async def inner(stream: Any) -> Any:
    async for value in stream:
        yield value.upper()


@app.agent(source, name="by")
async def by(stream: Any) -> None:
    async for value in stream.group_by(lambda value: value, name="value", partitions=1):
        # within a transaction the question is sent when the event has ended, so no event can await the answer
        seen["all"] += value.upper() if app.in_transaction else await inner.ask(value, key=value)
        refused = 0
        for name in (f"{ID}-out", "_snapkafka." + os.environ["SNAPKAFKA_NAMESPACE"]):
            try:
                await app.producer.send(name, b"k", b"v", None, None, None)
            except ForkIsolationError:
                refused += 1
        await out.send(key=str(refused), value=seen["all"])


snapkafka.install(app, namespace=os.environ["SNAPKAFKA_NAMESPACE"])  # late: everything has its name already
