"""Records that fit the limits of producer and topics by a few bytes, on every way out.

FEATURES_KIND says how the app sends: "plain" or "exactly_once". An event of `hold` runs while the file FEATURES_HOLD is
there: beside it there is one with the app's id then.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import ID, new_app, source
from tests.features.apps.sizes_limits import CLIENT_BYTES, TOPIC_BYTES

KIND = os.environ.get("FEATURES_KIND", "plain")
HOLD = Path(os.environ["FEATURES_HOLD"])

app = new_app(
    reply_create_topic=True,
    reply_to=f"{ID}-replies",
    broker_commit_interval=0.3,
    producer_max_batch_size=TOPIC_BYTES,
    producer_max_request_size=CLIENT_BYTES,
    **({"processing_guarantee": "exactly_once"} if KIND == "exactly_once" else {}),
)


def held() -> bool:
    return HOLD.exists()


def raw(name: str) -> Any:
    return app.topic(f"{ID}-{name}", key_type=str, value_type=bytes, value_serializer="raw")


ways = {name: raw(f"{name}-out") for name in ("sent", "soon", "client", "pair")}
relayed = raw("relayed-mid")
relayed_out = raw("relayed-out")
sized = app.Table("sized", key_type=str, value_type=str)


def body(value: Any) -> bytes:
    """Which record it is, filled up to its size."""
    return str(value["n"]).encode().ljust(value["size"], b".")


@app.agent(source(app, "sized"), name="sized")
async def sends(stream: Any) -> None:
    async for key, value in stream.items():
        match value["way"]:
            case "table":
                sized[key] = body(value).decode()
            case "soon":
                ways["soon"].send_soon(key=key, value=body(value))
            case "pair":  # two in one batch
                for n in range(2):
                    ways["pair"].send_soon(key=key, value=body(value | {"n": 2 * value["n"] + n}))
            case "relayed":
                await relayed.send(key=key, value=body(value))
            case way:
                await ways[way].send(key=key, value=body(value))


@app.agent(relayed, name="relayed")
async def relays(stream: Any) -> None:
    """Slow where a record says so."""
    async for key, value in stream.items():
        if value.startswith(b"slow"):
            await asyncio.sleep(3)
        await relayed_out.send(key=key, value=value[:20])


@app.agent(source(app, "hold"), name="hold")
async def holds(stream: Any) -> None:
    """A snapshot stays open as long as an event runs."""
    async for _ in stream:
        HOLD.with_name(ID).touch()
        while held():  # noqa: ASYNC110 -- the test ends it
            await asyncio.sleep(0.05)
