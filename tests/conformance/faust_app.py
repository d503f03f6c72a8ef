"""A service of the scenarios with Faust: `python -m tests.conformance.faust_app ROLE`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, cast

import faust

import snapkafka
from tests.conformance.money import PARTITIONS, Names, Role, partition_of, process

NAMES, ROLE = Names.from_environment(), cast(Role, os.environ["CONFORMANCE_ROLE"])

app = faust.App(
    NAMES.app(ROLE),
    broker=f"kafka://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    store="memory://",
    datadir=os.environ["CONFORMANCE_DATA"],
    topic_partitions=PARTITIONS,
    topic_disable_leader=True,
    web_enabled=False,
    processing_guarantee="exactly_once" if os.environ.get("CONFORMANCE_EXACTLY_ONCE") else "at_least_once",
)
snapkafka.install(app)
topics = {
    name: app.topic(name, key_serializer="raw", value_serializer="raw", partitions=PARTITIONS)
    for name in (NAMES.ticks, NAMES.coins, NAMES.change)
}
purse = app.Table(NAMES.table(ROLE), default=int, partitions=PARTITIONS)


def agent(topic: str) -> Any:
    async def run(stream: Any) -> None:
        async for event in stream.events():
            key = event.key.decode()
            sent = process(NAMES, ROLE, topic, key, int(event.value), purse)
            if sent is not None:
                to, coins = topics[sent[0]], str(sent[1]).encode()
                await to.send(key=event.key, value=coins, partition=partition_of(key))

    return app.agent(topics[topic], name=topic.rpartition("-")[2])(run)


agents = [agent(topic) for topic in NAMES.inputs(ROLE)]

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--without-web", "--loglevel", "warn"]
    Path(os.environ["CONFORMANCE_DATA"]).mkdir(exist_ok=True)
    app.main()
