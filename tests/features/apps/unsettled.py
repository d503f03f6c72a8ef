"""An app whose writes the broker refuses or never answers: it tells the test by files in the folder FEATURES_TOLD.

An event `refuse` writes more into the table than its changelog takes, and `fit` as much as that takes without a header
of ours. `freeze` waits until the file `frozen` is there,
and then writes and sends to a broker that does not answer.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.features.apps.common import new_app, source, target

TOLD = Path(os.environ["FEATURES_TOLD"])
#: What is written for an event instead of its value.
LARGE = {"refuse": "x" * 5_000, "fit": "x" * 1_910}

app = new_app(producer_request_timeout=2.0)
orders_out = target(app, "orders-out")
orders = app.Table("orders", key_type=str, value_type=str, default=str)


@app.agent(source(app, "orders"), name="orders")
async def take(stream: Any) -> None:
    async for event in stream.events():
        if event.value == "freeze":
            (TOLD / "waiting").touch()
            while not (TOLD / "frozen").exists():  # noqa: ASYNC110 -- the test makes it
                await asyncio.sleep(0.02)
        orders[event.key] = LARGE.get(event.value, event.value)
        sent = await orders_out.send(key=event.key, value=event.value)
        try:
            await sent
        except Exception as error:
            (TOLD / "failed").write_text(repr(error))
        (TOLD / f"done-{event.key}").touch()
