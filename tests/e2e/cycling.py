"""Two services in a cycle, whose end result is known: every item is counted in four tables and comes out once.

work (external) -> left: counts, also in windows; another agent of it collects -> ping -> right: sums -> pong -> left:
back -> out
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.e2e.cycling_names import PARTITIONS, WINDOW_S
from tests.worlds.app import new_app

PREFIX = os.environ["CYCLE_PREFIX"]

app = new_app(
    f"{PREFIX}{os.environ['CYCLE_ROLE']}",
    topic_partitions=PARTITIONS,
    web_enabled=False,
    env={},
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
    processing_guarantee=os.environ.get("CYCLE_GUARANTEE", "at_least_once"),
)


def held() -> bool:
    """Is the second service to wait, so that messages pile up before it?"""
    return Path(os.environ.get("CYCLE_HOLD", os.devnull)).is_file()


def topic(name: str) -> Any:
    return app.topic(f"{PREFIX}{name}", key_type=str, value_serializer="json")


def table(name: str) -> Any:
    of = {"store": f"rocksdb:{name}"} if "CYCLE_ON_DISK" in os.environ else {}
    return app.Table(name, key_type=str, value_type=int, default=int, partitions=PARTITIONS, **of)


ping, pong = topic("ping"), topic("pong")

if os.environ["CYCLE_ROLE"] == "left":
    work, out = topic("work"), topic("out")
    counts, back = table("counts"), table("back")
    windows = table("windows").tumbling(WINDOW_S)
    seen = app.SetTable("seen", key_type=str, value_type=int, partitions=PARTITIONS)

    @app.agent(work, name="count")
    async def count(stream: Any) -> None:
        async for key, item in stream.items():
            counts[key] += item["n"]
            windows[key] += item["n"]
            await ping.send(key=key, value=item)

    @app.agent(work, name="collect")
    async def collect(stream: Any) -> None:
        """Slower than the other agent of its topic: one consumer group, two positions."""
        async for key, item in stream.items():
            await asyncio.sleep(0.02)
            seen[key].add(item["id"])

    @app.agent(pong, name="return")
    async def give_back(stream: Any) -> None:
        async for key, item in stream.items():
            back[key] += item["n"]
            await out.send(key=key, value=item)

else:
    sums = table("sums")

    @app.agent(ping, name="sum")
    async def add_up(stream: Any) -> None:
        async for key, item in stream.items():
            await asyncio.sleep(float(os.environ.get("CYCLE_SUM_S", "0.01")))
            while held():  # noqa: ASYNC110 -- the test takes it away
                await asyncio.sleep(0.02)
            sums[key] += item["n"]
            await pong.send(key=key, value=item)
