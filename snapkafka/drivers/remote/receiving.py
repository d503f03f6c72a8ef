"""Records for a remote process: they are handed out, and the machine is fed how far they are processed.

    Kafka ──read──> `gate`: a partition is held, and sought back, while its next record is too red ──> the process
                                                                                                       │
    the machine: started, ended <──positions only go forward, never above what was handed out──  `processed`, `cut`

A record is an event of the process once the process reports it as processed, not when it is handed out: until then it
is in flight. So the position at the cut is the one that came with the state (R14). All events up to a position start
and end in that instant, so only the last one of each partition is fed. A record that is named as the cause of a send
starts at that send, which gets its colour and its cause (R5).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

from snapkafka.errors import BadInputError, SnapkafkaError, TriggerRefusedError
from snapkafka.kafka.records.read import KafkaConsumer, KafkaRecord
from snapkafka.protocol import Cause, TopicPartition

from .. import gate
from .inputs import READER, Bounds

#: One look at Kafka; what was let go is read at the next one.
READ_MS: Final = 250


class HandedOutRecords:
    """The incoming records of one process, and its progress as first offsets of each partition: `processed` <= the next
    valid position <= `received`. `begun` is one past the last record that it has named as the cause of a send: that is
    in the log, so a state without that record cannot belong to the same instant."""

    def __init__(self, host: Any, consumer: KafkaConsumer, *, bounds: Bounds) -> None:
        # the `Participant`, which imports this module
        self._host, self._machine, self._do = host, host.machine, host.do
        self._consumer, self._bounds = consumer, bounds
        self.processed: dict[TopicPartition, int] = {}
        self.received: dict[TopicPartition, int] = {}
        self.begun: dict[TopicPartition, int] = {}
        self._running: set[Cause] = set()  # causes of sends that are not processed yet
        self._held: set[TopicPartition] = set()
        self._streams = False
        self._reading = asyncio.Lock()
        self._news = asyncio.Event()
        self._committed: dict[TopicPartition, int] = {}
        self._committing = asyncio.Lock()

    async def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Connect, where there are inputs, and start at these positions."""
        if positions:
            await self._consumer.start(positions)
        for first in (self.processed, self.received, self.begun):
            first.update(positions)

    def let_go(self) -> None:
        """Read on what is held."""
        self._held.clear()
        self._news.set()

    # -- to the process ---------------------------------------------------------------------------------------

    async def records(self) -> AsyncIterator[KafkaRecord]:
        """Yield records until the process leaves; once, for who reads them again joins again."""
        host = self._host
        if not self.processed:
            raise BadInputError(f"{host.node} has no inputs", hint="name them in Join")
        if self._streams:
            raise TriggerRefusedError(
                f"{host.node} has received already", hint="join again: it starts anew then"
            )
        self._streams = True
        while True:
            records = await self._read()
            host.require_here()
            for record in records:
                if record.tp in self._held or not await self._passes(record):
                    continue
                size = len(record.key or b"") + len(record.value or b"")
                if size > self._bounds.receive_bytes_max:
                    raise BadInputError(
                        f"record {record.tp}@{record.offset} has {size:,} bytes: too large for gRPC",
                        hint=f"at most {self._bounds.receive_bytes_max:,}; it is kept: join with a position past it",
                    )
                self.received[record.tp] = record.offset + 1
                yield record
                host.require_here()

    async def _read(self) -> list[KafkaRecord]:
        """Read of the partitions that are not held; wait for news if all are."""
        tps = [tp for tp in self.processed if tp not in self._held]
        if not tps:
            self._news.clear()
            await self._news.wait()
            return []
        async with self._reading:
            return [] if self._host.left else await self._consumer.read(tps, READ_MS)

    async def _passes(self, record: KafkaRecord) -> bool:
        """Return whether a record goes to the process now; one that has to wait is read again."""
        tp, offset = record.tp, record.offset
        decided = gate.decide(self._host, tp, offset, record.key, record.value, record.header)
        if decided.met is not None and await self._host.follower.meet(decided.met):
            self._held.add(tp)
            self._consumer.seek({tp: offset})
            return False
        if decided.ended is not None:
            self._host.feed(decided.ended)
        return decided.passes

    # -- from the process -------------------------------------------------------------------------------------

    def cause(self, tp: TopicPartition, offset: int) -> Cause | None:
        """Start the event of a record when a send that it causes enters; None: the event is over, or a later one has
        begun."""
        event = Cause(READER, tp, offset)
        if event in self._running:
            return event
        if len(self._running) >= self._bounds.causes_max:
            raise BadInputError(
                f"{len(self._running):,} causes are not processed", hint="give their positions to Processed"
            )
        self._require_input(tp)
        if not 0 <= offset < self.received[tp]:
            raise BadInputError(
                f"the cause {tp}@{offset} was not received", hint="name a record that Receive has handed out"
            )
        if offset < max(self.begun[tp], self.processed[tp]):
            return None
        self.begun[tp] = offset + 1
        self._running.add(event)
        self._do(self._machine.event_started(event))
        return event

    def _require_input(self, tp: TopicPartition) -> None:
        if tp not in self.processed:
            raise BadInputError(
                f"{tp.topic[:100]}[{tp.partition}] is not an input of this process", hint="name it in Join"
            )

    def merged(
        self, positions: Iterable[tuple[TopicPartition, int]], *, of_state: bool = False
    ) -> dict[TopicPartition, int]:
        """Return the positions of all inputs, updated by these. `of_state`: they belong to a state, so no record past
        them is the cause of a send."""
        found: dict[TopicPartition, int] = {}
        for tp, offset in positions:
            self._require_input(tp)
            if tp in found:
                raise BadInputError(f"{tp} has two positions", hint="give one")
            if offset < self.processed[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} is behind {self.processed[tp]}, which was given as processed",
                    hint="positions only go forward",
                )
            if offset > self.received[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} is beyond {self.received[tp]}: no record past that was received",
                    hint="a position is the first offset that is not processed",
                )
            found[tp] = offset
        found = self.processed | found
        for tp, offset in sorted(found.items()):
            if of_state and offset < self.begun[tp]:
                raise BadInputError(
                    f"position {offset} of {tp} leaves out {self.begun[tp] - 1}, the cause of a send before the marker",
                    hint="record the state when its records are processed, and give their positions with it",
                )
        return found

    def move(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note how far the process is: the events up to there start, unless they have, and end."""
        for tp, offset in sorted(positions.items()):
            if offset == self.processed[tp]:
                continue
            self.processed[tp] = offset
            over = [event for event in self._running if event.tp == tp and event.offset < offset]
            if offset > self.begun[tp]:
                self.begun[tp] = offset
                last = Cause(READER, tp, offset - 1)
                self._do(self._machine.event_started(last))
                over.append(last)
            self._running.difference_update(over)
            for event in sorted(over):
                self._do(self._machine.event_ended(event))

    async def commit(self) -> None:
        async with self._committing:
            due = {tp: at for tp, at in self.processed.items() if at != self._committed.get(tp)}
            if due:
                await self._consumer.commit(due)
                self._committed.update(due)

    async def commit_quietly(self) -> None:
        """Commit what is processed when no caller waits: the next commit makes up for a failure."""
        try:
            await self.commit()
        except SnapkafkaError as error:
            self._host.log("%s (%s)", error, error.hint)

    async def close(self) -> None:
        """Close the connections, once nothing is read."""
        async with self._reading:
            await self._consumer.close()
