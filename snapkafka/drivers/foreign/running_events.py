"""Records for a foreign process: they are handed out, and the machine is fed how far they are processed.

    Kafka ──read ahead, bounded──> a queue for each partition ──`Gate`: held while it is too red──> the process
                                                                                                       │
    the machine: started, ended <──positions only go forward, never above what was handed out──  `processed`, `cut`

A record is an event of the process once the process reports it as processed, not when it is handed out: until then it
is in flight. So the position at the cut is the one that came with the state (R14). All events up to a position start
and end in that instant, so only the last one of each partition is fed. A record that is named as the cause of a send
starts at that send, which gets its colour and its cause (R5).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from snapkafka.errors import BadInputError, SnapkafkaError, TriggerRefusedError
from snapkafka.kafka.records.read import Record
from snapkafka.logs import about
from snapkafka.ports import Ledger
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.records import TopicPartition

from .assignment import READER, Starts
from .conductor import Gate, Pass
from .host import ForeignHost
from .progress import Progress
from .settings import Bounds

logger = logging.getLogger("snapkafka")

#: One look at Kafka; one that is under way is waited for when a stream starts again.
READ_MS: Final = 250


class Consumer(Protocol):
    """The source of the records (`kafka.records.read.KafkaConsumer`)."""

    async def start(self, positions: Mapping[TopicPartition, int]) -> None: ...

    def seek(self, positions: Mapping[TopicPartition, int]) -> None: ...

    async def read(self, tps: Collection[TopicPartition], within_ms: int) -> list[Record]: ...

    async def commit(self, positions: Mapping[TopicPartition, int]) -> None: ...

    async def close(self) -> None: ...


class HandedOutRecords:
    """The incoming records of one process.

    Args:
        host: of the process.
        ledger_id: of the headers that count.
    """

    def __init__(
        self,
        host: ForeignHost,
        ledger: Ledger,
        consumer: Consumer,
        *,
        ledger_id: Callable[[], int],
        bounds: Bounds,
    ) -> None:
        self._machine, self._do = host.machine, host.do
        self._consumer, self._bounds = consumer, bounds
        self._gate = Gate(
            host,
            ledger,
            ledger_id=ledger_id,
            changed=self.changed,
        )
        self._progress = Progress()
        self._running: set[Cause] = set()  # causes of sends that are not processed yet
        self._queues: dict[TopicPartition, deque[Record]] = {}
        self._turn: deque[TopicPartition] = deque()  # partitions, the next one to be served first
        self._stream = 0  # of several streams the latest counts
        self._reading: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._started = False
        self._left = ""
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()

    async def start(self, starts: Starts) -> None:
        """Connect, where there are inputs.

        Raises:
            SnapkafkaError: Kafka cannot be used.
        """
        self._progress.start(starts.positions)
        self._turn.extend(starts.positions)
        if starts.positions:
            await self._consumer.start(starts.positions)
            self._started = True

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """The first unprocessed offset of each partition."""
        return self._progress.processed

    def changed(self) -> None:
        """Check held records again: the machine was fed something."""
        self._news.set()

    def leave(self, reason: str) -> None:
        """End the stream."""
        self._left = reason
        self.changed()

    # -- to the process ---------------------------------------------------------------------------------------

    async def records(self, node: str) -> AsyncIterator[Record]:
        """Yield records from the first unprocessed one, until the process leaves or another stream starts.

        Raises:
            BadInputError: the process has no inputs, or the next record is too large.
            TriggerRefusedError: it has left.
            SnapkafkaError: they cannot be read.
        """
        if not self._turn:
            raise BadInputError(f"{node} has no inputs", hint="name them in Join")
        self._stream += 1
        mine = self._stream
        self.changed()
        await self._rewind(mine)
        while self._stream == mine:
            if self._left:
                raise TriggerRefusedError(f"{node} no longer takes part: {self._left}", hint="join again")
            record = self._next()
            if record is None:
                await self._wait(mine)
                continue
            size = len(record.key or b"") + len(record.value or b"")
            if size > self._bounds.receive_bytes_max:
                raise BadInputError(
                    f"record {record.tp}@{record.offset} has {size:,} bytes: too large for gRPC",
                    hint=f"at most {self._bounds.receive_bytes_max:,}; it is kept: join with a position past it",
                )
            self._progress.receive(record.tp, record.offset)
            yield record

    async def _rewind(self, mine: int) -> None:
        """Start again at the first unprocessed record, once no earlier stream is reading."""
        if self._reading is not None:
            with contextlib.suppress(SnapkafkaError):  # if it failed, the next one does, too
                await asyncio.shield(self._reading)
        if self._stream == mine:
            self._reading = None
            self._queues = {tp: deque() for tp in self._turn}
            self._consumer.seek(self._progress.processed)

    def _next(self) -> Record | None:
        """Return the next record that may go to the process, partitions in turn; None: none may now."""
        for _ in range(len(self._turn)):
            queue = self._queues[self._turn[0]]
            self._turn.rotate(-1)
            while queue and (found := self._gate.ask(queue[0])) is not Pass.HOLD:
                record = queue.popleft()
                if found is Pass.TAKE:
                    return record
        return None

    async def _wait(self, mine: int) -> None:
        """Wait until more was read, or the machine was fed something; do not read partitions whose records wait."""
        self._news.clear()
        if self._reading is None and (empty := [tp for tp, queue in self._queues.items() if not queue]):
            self._reading = asyncio.ensure_future(self._read(empty, mine))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait(
                {news} if self._reading is None else {news, self._reading},
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            news.cancel()
        if self._stream == mine and self._reading is not None and self._reading.done():
            reading, self._reading = self._reading, None
            reading.result()

    async def _read(self, tps: Collection[TopicPartition], mine: int) -> None:
        records = await self._consumer.read(tps, READ_MS)
        if self._stream == mine:
            for record in records:
                self._queues[record.tp].append(record)

    # -- from the process -------------------------------------------------------------------------------------

    def cause(self, tp: TopicPartition, offset: int) -> Cause | None:
        """Start the event of a record when a send that it causes enters; None: the event is over, or a later one has
        begun.

        Raises:
            BadInputError: the record was not received, or too many are unprocessed.
        """
        event = Cause(READER, tp, offset)
        if event in self._running:
            return event
        if len(self._running) >= self._bounds.causes_max:
            raise BadInputError(
                f"{len(self._running):,} causes are not processed", hint="give their positions to Processed"
            )
        if not self._progress.begins(tp, offset):
            return None
        self._running.add(event)
        self._do(self._machine.event_started(event))
        return event

    def require_state(self, positions: Iterable[tuple[TopicPartition, int]]) -> None:
        """Refuse positions that a state cannot have.

        Raises:
            BadInputError: see `Progress.of_state`.
        """
        self._progress.of_state(positions)

    def move(self, positions: Iterable[tuple[TopicPartition, int]], *, of_state: bool) -> None:
        """Note how far the process is: the events up to there start, unless they have, and end.

        Args:
            of_state: whether these are the positions of a state.

        Raises:
            BadInputError: see `Progress`.
        """
        progress = self._progress
        found = progress.of_state(positions) if of_state else progress.merged(positions)
        for tp, offset in sorted(found.items()):
            if offset == progress.processed[tp]:
                continue
            progress.processed[tp] = offset
            over = [event for event in self._running if event.tp == tp and event.offset < offset]
            if offset > progress.begun[tp]:
                progress.begun[tp] = offset
                last = Cause(READER, tp, offset - 1)
                self._do(self._machine.event_started(last))
                over.append(last)
            self._running.difference_update(over)
            for event in sorted(over):
                self._do(self._machine.event_ended(event))

    async def commit(self) -> None:
        """Commit what is processed.

        Raises:
            LedgerUnusableError: the group has members, or committing is not authorized.
            BrokerUnavailableError: the broker does not answer.
        """
        async with self._committing:
            due = {
                tp: offset
                for tp, offset in self._progress.processed.items()
                if offset != self._committed.get(tp)
            }
            if due and self._started:
                await self._consumer.commit(due)
                self._committed.update(due)

    async def commit_quietly(self) -> None:
        """Commit what is processed when no caller waits: the next commit makes up for a failure."""
        try:
            await self.commit()
        except SnapkafkaError as error:
            logger.warning("snapkafka: %s (%s)", error, error.hint, extra=about())

    async def close(self) -> None:
        """Close the connections."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError, SnapkafkaError):
                await reading
        await self._consumer.close()
