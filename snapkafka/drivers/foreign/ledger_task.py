"""The ledger tasks of one foreign process: one reads, another appends in the order asked.

Each entry is fed to the machine, but a trigger waits for the state of the process, and so do all entries after it (a
process may read the ledger as late as it likes, R2). `ahead` is a fold of all entries read, fed or not: it shows
whether that snapshot is still open, and whether this process was declared dead.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from snapkafka.errors import BrokerUnavailableError, SnapkafkaError
from snapkafka.kafka.ledger.tail_marks import LedgerCutShortError
from snapkafka.logs import about
from snapkafka.ports import Entry, Ledger
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import LedgerRecord, Trigger

logger = logging.getLogger("snapkafka")

#: Between two attempts to append to a ledger that does not answer.
RETRY_S: Final = 1.0


class LedgerTask:
    """The reading and the appending task of one process.

    Args:
        feed: takes in an entry.
        asks: is this trigger's snapshot to wait for the state of the process? Asked once it is the next to be fed.
        seen: called when more was read, fed or not.
        failed: hears why the ledger can be used no more.
        cut_short: called when the ledger has lost what was read: from which offset on, up to where it was read.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        feed: Callable[[Entry], None],
        asks: Callable[[int, Entry], bool],
        seen: Callable[[], None],
        failed: Callable[[str], None],
        cut_short: Callable[[int, int], None],
    ) -> None:
        self._cut_short = cut_short
        self._ledger, self._feed, self._asks, self._seen, self._failed = ledger, feed, asks, seen, failed
        self.ahead = LedgerState(history=False)
        self._unfed: deque[Entry] = deque()
        self._outbox: asyncio.Queue[LedgerRecord] = asyncio.Queue()
        self._news = asyncio.Event()
        self._held = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, begins: Callable[[int], object]) -> None:
        """Open the ledger and follow it.

        Args:
            begins: called with its first offset, before anything is fed.

        Raises:
            SnapkafkaError: it cannot be opened.
        """
        await self._ledger.open()
        start = await self._ledger.start()
        self.ahead = LedgerState(history=False, start=start)
        begins(start)
        self._tasks = [asyncio.ensure_future(self._read(start)), asyncio.ensure_future(self._write())]

    def append(self, record: LedgerRecord) -> None:
        """Append in the background, in the order asked."""
        self._outbox.put_nowait(record)

    async def written(self) -> None:
        """Wait until nothing is left to be appended."""
        await self._outbox.join()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition that only reading the ledger can change."""
        while not holds():
            await self._news.wait()

    def go_on(self) -> None:
        """Feed the trigger that waited, and what follows it, up to the next one that has to wait."""
        if self._held:
            self._held = False
            self._feed(self._unfed.popleft())
        self._feed_on()

    def _feed_on(self) -> None:
        while self._unfed and not self._held:
            entry = self._unfed[0]
            epoch = entry.offset + 1
            if isinstance(entry.record, Trigger) and self._asks(epoch, entry):
                self._held = True
            else:
                self._feed(self._unfed.popleft())

    async def _read(self, start: int) -> None:
        try:
            async for entry in self._ledger.read(start):
                self.ahead.apply(entry.offset, entry.record)
                self._unfed.append(entry)
                self._seen()
                self._feed_on()
                news, self._news = self._news, asyncio.Event()
                news.set()
        except LedgerCutShortError as error:
            await self._append_loss(error)
        except SnapkafkaError as error:
            self._failed(f"the ledger cannot be read: {error}")
        except Exception as error:
            logger.exception("snapkafka: a foreign process cannot read the ledger", extra=about())
            self._failed(f"the ledger cannot be read: {error!r}")

    async def _append_loss(self, error: LedgerCutShortError) -> None:
        """Drop the waiting records, which name a void id, and append the loss instead."""
        while not self._outbox.empty():
            self._outbox.get_nowait()
            self._outbox.task_done()
        try:
            await self._ledger.open()
        except SnapkafkaError as why:
            logger.warning("snapkafka: %s; it could not be written down: %s", error, why, extra=about())
        self._cut_short(error.since, error.upto)

    async def _write(self) -> None:
        while True:
            record = await self._outbox.get()
            try:
                await self._append(record)
            except SnapkafkaError as error:
                self._failed(f"{type(record).__name__} cannot be written to the ledger: {error}")
            finally:
                self._outbox.task_done()

    async def _append(self, record: LedgerRecord) -> None:
        while True:
            try:
                await self._ledger.append(record)
                return
            except BrokerUnavailableError:
                await asyncio.sleep(RETRY_S)  # what landed twice is dropped by every reader

    async def close(self) -> None:
        """End both tasks, and close the ledger."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ledger.close()
