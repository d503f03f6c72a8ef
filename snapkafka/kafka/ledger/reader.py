"""The reader of the ledger: from an offset on, live, past garbage, and no further once the topic was recreated.

While snapshots are under way a reader rests, and then takes at once what was written meanwhile (a gulp). Every record
would wake every process, and the broker with each: of a snapshot of N processes N times 2N fetches. Nobody waits for
what a worker reads of the others, so it may come late. Who does wait ends the rest (`hurry`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Self

from aiokafka import TopicPartition as KafkaPartition
from aiokafka import errors

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.login import clients
from snapkafka.kafka.login.connection import Connection, translated
from snapkafka.ports import HOLE, Entry, Rest
from snapkafka.wire.codec import UndecodableError, decode


class Gulps:
    """The rests of one reader.

    Args:
        seconds: asked after each gulp for how long the reader rests; 0: not at all.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._ended = asyncio.Event()

    def hurry(self) -> None:
        """End the present rest, or leave out the next one: somebody waits for what stands in the ledger."""
        self._ended.set()

    async def rest(self) -> None:
        """Rest for a while, or until somebody is in a hurry."""
        if (seconds := self._seconds()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
        self._ended.clear()


#: The broker answers a fetch at once when there is something, else after this long; it only bounds idle traffic.
FETCH_WAIT_MS: Final = 5000
#: How often a waiting reader checks whether the ledger is still the same one.
LOOK_UP_MS: Final = 1000
#: So long a reader works before it lets others have their turn; one record takes up to a millisecond. A service that
#: reads a long ledger at its start must go on meanwhile: a live reader takes half of the loop; a tool takes all of it.
SLICE_S: Final = 0.005
#: What took longer to get had to be waited for, so nothing is behind.
AT_HAND_S: Final = 0.005
#: So many of the fetched records are taken at once.
AT_ONCE: Final = 200
#: Between two checks of the topic id: one small request per process.
WATCH_S: Final = 3.0


class LedgerRecreatedError(LedgerUnusableError):
    """The ledger was deleted or recreated: its epochs and process ids mean nothing any more.

    A process catches it and starts over with an empty fold: `open()`, then read from 0.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(f"ledger {topic} was deleted meanwhile (and perhaps recreated)", hint="run it again")


class LedgerTrimmedError(LedgerUnusableError):
    """What has to be read next was deleted."""


async def read_entries(
    connection: Connection,
    topic: str,
    start: int,
    *,
    until: int | None,
    same: Callable[[], Awaitable[bool]],
    suspect: asyncio.Event,
    rest: Rest | None = None,
) -> AsyncIterator[Entry]:
    """Yield the entries from `start` on, in order; end at `until`, or never.

    Args:
        until: stop before this offset; None reads live.
        same: is the topic still the one that was opened? Asked every `WATCH_S`, and where offsets state that it is not.
            It raises where that topic has lost what was read.
        suspect: set by who has seen that it is not, or that records are lost; `same` clears it.
        rest: of a live reader, after what was at hand.

    Raises:
        LedgerRecreatedError: it is not.
        LedgerCutShortError: it has lost records that were read.
        LedgerTrimmedError: what has to be read next was deleted.
        LedgerUnusableError: the client cannot parse a record, or the right to read is missing.
        BrokerUnavailableError: nobody answers.
    """
    if until is not None and start >= until:
        return
    clock = asyncio.get_running_loop().time
    async with _Reader(connection, topic, start, same, suspect) as reader:
        watch = asyncio.ensure_future(reader.watch()) if until is None else None
        busy_since = clock()
        try:
            while until is None or reader.next < until:
                asked = clock()
                found = await reader.some()
                if clock() - asked >= AT_HAND_S:
                    busy_since = clock()
                rests = rest is not None and reader.pause()
                for entry in found:
                    if until is None or entry.offset < until:
                        yield entry
                    if (busy := clock() - busy_since) >= SLICE_S:
                        await asyncio.sleep(busy if until is None else 0)
                        busy_since = clock()
                if rest is not None and rests:
                    await rest()
                    reader.resume()
                    busy_since = clock()
                if watch is not None and watch.done():
                    watch.result()
        finally:
            if watch is not None:
                watch.cancel()
                await asyncio.gather(watch, return_exceptions=True)


class _Reader:
    """A consumer without a group, and its position: `next` is the first offset not handed out."""

    def __init__(
        self,
        connection: Connection,
        topic: str,
        start: int,
        same: Callable[[], Awaitable[bool]],
        suspect: asyncio.Event,
    ) -> None:
        self._connection = connection
        self._tp = KafkaPartition(topic, 0)
        self._same = same
        self._suspect = suspect
        self._consumer: Any = None
        self.next = start

    async def __aenter__(self) -> Self:
        self._consumer = clients.consumer(
            self._connection,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        async with translated(self._connection, "read the ledger"):
            await clients.started(self._consumer)
        self._consumer.assign([self._tp])
        self._consumer.seek(self._tp, self.next)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()

    def pause(self) -> bool:
        """Fetch nothing for now: the client would fetch the next record while this one is read, and wake up for it.
        Return False if more is at hand already."""
        if self._consumer._fetcher._records:
            return False
        self._consumer.pause(self._tp)
        return True

    def resume(self) -> None:
        """Fetch again."""
        self._consumer.resume(self._tp)

    async def some(self) -> Iterable[Entry]:
        """Return the entries at hand, decoded one by one as they are taken; wait a little for the first."""
        with translated(self._connection, "read the ledger"):
            batches = await self._fetch()
        if batches:
            return (self._entry(record) for records in batches.values() for record in records)
        position = self._consumer._subscription.subscription.assignment.state_value(self._tp).position
        if position > self.next:  # offsets without a record: a transaction's end, or a compacted batch
            self.next = position
            return [Entry(position - 1, HOLE, None)]
        return []

    async def _fetch(self) -> Any:
        try:
            return await self._consumer.getmany(self._tp, timeout_ms=LOOK_UP_MS, max_records=AT_ONCE)
        except errors.OffsetOutOfRangeError as error:
            self._suspect.set()
            if not await self._same():
                raise LedgerRecreatedError(self._tp.topic) from error
            trimmed = f"ledger {self._tp.topic} no longer has offset {self.next}"
            raise LedgerTrimmedError(trimmed, hint="run it again") from error
        except Exception as error:  # the client's parser raises anything for damaged bytes
            unparsed = isinstance(error, errors.UnsupportedCodecError | errors.CorruptRecordException)
            if not unparsed and isinstance(error, TimeoutError | errors.KafkaError | OSError):
                raise
            raise LedgerUnusableError(
                f"a record of ledger {self._tp.topic} at offset {self.next} or soon after it cannot be parsed: {error}",
                hint="pip install 'aiokafka[all]' has every codec; else delete the topic and restart the services",
                offset=self.next,
            ) from error

    def _entry(self, record: Any) -> Entry:
        self.next = record.offset + 1
        try:
            decoded = decode(record.value)
        except UndecodableError:
            return Entry(record.offset, record.timestamp, None)
        return Entry(record.offset, record.timestamp, decoded)

    async def watch(self) -> None:
        """Raise an error when the topic is another one, or has lost what was read; never return."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._suspect.wait(), WATCH_S)
            if not await self._same():
                raise LedgerRecreatedError(self._tp.topic)
            if self._suspect.is_set():
                await asyncio.sleep(WATCH_S)  # nobody has answered
