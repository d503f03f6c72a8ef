"""The `accounts` service: the balances. It debits an account and emits a transfer; it credits what clearing sends
back.

faust -A snapkafka.demo.accounts worker
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from snapkafka.demo.settings import CREDITS, PARTITIONS, REQUESTS, SLOW_REQUESTS, TRANSFERS, new_app

app = new_app("accounts")

requests = app.topic(REQUESTS, key_type=str, value_serializer="json")
slow_requests = app.topic(SLOW_REQUESTS, key_type=str, value_serializer="json")
credits_back = app.topic(CREDITS, key_type=str, value_serializer="json")
transfers = app.topic(TRANSFERS, key_type=str, value_serializer="json")

balances = app.Table("balances", key_type=str, value_type=int, partitions=PARTITIONS)


def debit(source: str, amount: int) -> bool:
    """Debit the account, if the money is there."""
    if balances.get(source, 0) < amount:
        return False
    balances[source] -= amount
    return True


def transfer(source: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the money in flight: how much, from whom, and when it was requested."""
    return {"amount": request["amount"], "from": source, "asked": request["asked"]}


@app.agent(requests, name="accounts.debit")
async def take_requests(stream: Any) -> None:
    async for key, request in stream.items():
        if "open" in request:
            if key not in balances:  # it is asked for until it is there
                balances[key] = request["open"]
        elif debit(key, request["amount"]):
            await transfers.send(key=request["to"], value=transfer(key, request))


@app.agent(slow_requests, name="accounts.debit-slowly")
async def take_slow_requests(stream: Any) -> None:
    """Transfer slowly, as real agents do: with another request (50-200 ms) between the table write and the send."""
    async for key, request in stream.items():
        if debit(key, request["amount"]):
            await asyncio.sleep(random.uniform(0.05, 0.2))
            await transfers.send(key=request["to"], value=transfer(key, request))


@app.agent(credits_back, name="accounts.credit")
async def take_credits(stream: Any) -> None:
    async for key, credit in stream.items():
        balances[key] = balances.get(key, 0) + credit["amount"]
