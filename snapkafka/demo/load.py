"""The outside world of the demo: it opens the accounts, then requests transfers at a steady rate until stopped.

python -m snapkafka.demo.load
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from typing import Final

from aiokafka import AIOKafkaProducer

from snapkafka.demo.settings import ACCOUNTS, OPENING_BALANCE, REQUESTS, SLOW_REQUESTS, account

#: Transfers asked for per second; one in `SLOW_EVERY` goes to the slow agent.
RATE: Final = 80
SLOW_EVERY: Final = 10
#: Faust may pass over what comes while it ends a recovery, so the accounts are asked for a second time.
ASK_AGAIN_S: Final = 10.0


class Load:
    """A producer of requests: plain Kafka, no snapkafka. Its records are external, so only the position counts.

    Args:
        bootstrap: the broker.
        rate: transfers per second.
        slow_every: one transfer in so many goes to the slow agent, 0: none.
    """

    def __init__(self, bootstrap: str, *, rate: float = RATE, slow_every: int = SLOW_EVERY) -> None:
        self._bootstrap = bootstrap
        self._random = random.Random(1985)  # determines who pays whom how much
        self._rate = rate
        self._slow_every = slow_every
        self.asked = 0

    async def open_accounts(self) -> None:
        """Put the opening balance on every account; return when the broker has all of them."""
        opening = json.dumps({"open": OPENING_BALANCE}).encode()
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap) as producer:
            for number in range(ACCOUNTS):
                await producer.send(REQUESTS, key=account(number).encode(), value=opening)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Request transfers for the length of the block."""
        task = asyncio.ensure_future(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self) -> None:
        """Request transfers until cancelled."""
        async with AIOKafkaProducer(bootstrap_servers=self._bootstrap) as producer:
            loop = asyncio.get_running_loop()
            start = loop.time()
            while True:
                source, target = self._random.sample(range(ACCOUNTS), 2)
                amount = self._random.randint(1, 50)
                slow = self._slow_every and self.asked % self._slow_every == 0
                topic = SLOW_REQUESTS if slow else REQUESTS
                value = json.dumps({"to": account(target), "amount": amount, "asked": time.time()}).encode()
                await producer.send(topic, key=account(source).encode(), value=value)
                self.asked += 1
                await asyncio.sleep(max(0.0, start + self.asked / self._rate - loop.time()))


async def main() -> None:
    """Open the accounts and request transfers until SIGINT or SIGTERM."""
    load, task = Load(os.environ["SNAPKAFKA_BOOTSTRAP"]), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await load.open_accounts()
        await asyncio.sleep(ASK_AGAIN_S)
        await load.open_accounts()
        await load.run()


if __name__ == "__main__":
    asyncio.run(main())
