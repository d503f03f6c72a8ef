"""An app whose worker answers, and programs that only ask it or only produce: `python -m ... client|producer`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from tests.features.apps.common import ID, new_app

app = new_app(reply_create_topic=True)
asked = app.topic(f"{ID}-asked", key_type=str, value_type=int)


@app.agent(asked, name="square")
async def square(stream: Any) -> Any:
    async for number in stream:
        yield number * number


async def as_client() -> None:
    await app.start_client()
    n = 0
    while True:
        n += 1
        assert await square.ask(n, key=str(n)) == n * n
        print("answered", n, flush=True)


async def as_producer() -> None:
    app.producer_only = True
    await app.start()
    n = 0
    while True:
        n += 1
        await (await asked.send(key=str(n), value=n))
        print("answered", n, flush=True)
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(as_client() if sys.argv[1] == "client" else as_producer())
