"""A Faust app that keeps half of what it is sent, in the purse of the key, and sends the rest back as change."""

import asyncio
import os
from typing import Any

from tests.worlds.app import new_app

NAME = os.environ["COINS_APP_ID"]

app = new_app(NAME)

coins = app.topic(f"{NAME}-in", key_serializer="raw", value_serializer="json")
change = app.topic(f"{NAME}-change", key_serializer="raw", value_serializer="json")
purses = app.Table("purses", default=int, partitions=2)

#: So that coins pile up in front of it.
PAUSE_S = 0.004


@app.agent(coins, name="keep")
async def keep(stream: Any) -> None:
    async for event in stream.events():
        back = event.value // 2
        purses[event.key.decode()] += event.value - back
        await asyncio.sleep(PAUSE_S)
        if back:
            await change.send(key=event.key, value=back)
