"""The `clearing` service: the turnover between accounts. It sends the credit back to `accounts`: a cycle.

faust -A snapkafka.demo.clearing worker
"""

from __future__ import annotations

import asyncio
from typing import Any

from snapkafka.demo.settings import CREDITS, PARTITIONS, TRANSFERS, new_app

app = new_app("clearing")

transfers = app.topic(TRANSFERS, key_type=str, value_serializer="json")
credits_back = app.topic(CREDITS, key_type=str, value_serializer="json")

passed = app.Table("passed", key_type=str, value_type=int, default=int, partitions=PARTITIONS)


@app.agent(transfers, name="clearing.clear")
async def clear(stream: Any) -> None:
    async for key, transfer in stream.items():
        passed[key] += transfer["amount"]
        await asyncio.sleep(0.004)  # a look-up somewhere
        await credits_back.send(key=key, value=transfer)
