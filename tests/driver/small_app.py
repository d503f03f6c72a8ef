"""A Faust app of its own, with snapkafka installed early, or late: FEATURES_INSTALL.

Agents: `count` (table write and send), and `mute` on the same topic; `back` reads what `count` sends."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from snapkafka.drivers.faust import driver, hooks
from snapkafka.drivers.faust.inbound import membership
from tests.features.apps.common import ID, LATE, end_of_module, new_app

#: A seam of Faust's that is not as expected.
BROKEN = os.environ.get("SMALL_APP_BROKEN", "")
#: Nobody takes our header off then, as where snapkafka is not installed.
SEES_HEADERS = BROKEN in ("IncomingRecords", "watch_streams")


def fail_at_once(*_: Any) -> Any:
    raise RuntimeError(f"{BROKEN} is broken")


async def fail(*_: Any) -> Any:
    fail_at_once()


if BROKEN:
    place = next(it for it in (hooks, driver, membership) if hasattr(it, BROKEN))
    setattr(place, BROKEN, fail if asyncio.iscoroutinefunction(getattr(place, BROKEN)) else fail_at_once)

app = new_app(
    broker=f"{os.environ.get('SMALL_APP_TRANSPORT', 'kafka')}://{os.environ['SNAPKAFKA_BOOTSTRAP']}",
    web_bind="127.0.0.1",
    web_port=int(os.environ.get("SMALL_APP_WEB_PORT", "6066")),
    **({os.environ["SMALL_APP_SETTING"]: True} if "SMALL_APP_SETTING" in os.environ else {}),
)
source = app.topic(f"{ID}-in", key_serializer="raw", value_serializer="raw")
target = app.topic(f"{ID}-out", key_serializer="raw", value_serializer="raw")
counts = app.Table("counts", default=int, partitions=2)


@app.agent(source, name="count")
async def count(stream: Any) -> None:
    async for event in stream.events():
        assert SEES_HEADERS or "_sk" not in event.headers, "agents never see our header"
        counts[event.key.decode()] += 1
        await target.send(key=event.key, value=event.value)


@app.agent(source, name="mute")
async def mute(stream: Any) -> None:
    async for _ in stream:
        pass


@app.agent(target, name="back")
async def back(stream: Any) -> None:
    """Fails on a marker, as any agent that expects a value would."""
    async for event in stream.events():
        assert event.value is not None, "a marker reached an agent"
        assert SEES_HEADERS or "_sk" not in event.headers, "agents never see our header"


if LATE:
    app.conf.id  # noqa: B018 -- finalises the app, as a module that reads its settings does
end_of_module(app)
