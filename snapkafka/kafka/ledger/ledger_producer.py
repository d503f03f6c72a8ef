"""The producer of a ledger: one idempotent connection, dropped and made again after every failure."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection

from .settings import RECORD_BYTES_MAX

#: The codec of the ledger's batches. Every client has it, and it takes 50 to 300 us for a record.
COMPRESSION: Final = "gzip"
#: A producer that is dropped is waited for no longer.
STOP_WITHIN_S: Final = 1.0


class LedgerProducer:
    """A producer that connects when first used."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection, self._topic = connection, topic
        self._producer: Any = None
        self._stopping: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    async def send(self, key: bytes, value: bytes) -> int:
        """Send a record in the order of the calls, wait until it is acknowledged, and return its offset."""
        async with self._sending:
            producer = await self._connected()
            acknowledged = await producer.send(self._topic, value, key, partition=0)
        return int((await acknowledged).offset)

    async def _connected(self) -> Any:
        if self._producer is None:
            producer = clients.producer(
                self._connection,
                acks="all",
                enable_idempotence=True,
                linger_ms=0,
                compression_type=COMPRESSION,
                max_request_size=2 * RECORD_BYTES_MAX,
            )
            self._producer = await clients.started(producer)
        return self._producer

    async def drop(self) -> None:
        """Drop the connection after a failure, or for another ledger: its sequence numbers mean nothing any more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            stopping = asyncio.ensure_future(_stop(producer))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
            await asyncio.wait([stopping], timeout=STOP_WITHIN_S)

    async def close(self) -> None:
        """Close the connection, and those that were dropped."""
        await self.drop()
        for stopping in list(self._stopping):
            stopping.cancel()
            await asyncio.wait([stopping], timeout=STOP_WITHIN_S)


async def _stop(producer: Any) -> None:
    """Stop a producer; in order if it can send its records. An idempotent one retries for ever, and the client library
    does not stop it before: each failed append would leave one behind."""
    flushing = asyncio.ensure_future(producer.flush())
    flushed, _ = await asyncio.wait([flushing], timeout=STOP_WITHIN_S)
    if flushed:
        await producer.stop()
        return
    flushing.cancel()
    try:
        await producer._sender.close()  # what is under way ends by the timeout of requests
    finally:
        producer._closed = True
        await producer.client.close()
