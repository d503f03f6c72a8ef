"""The steps that create a fork, in order. Production is only read.

    begun      the ledger of the fork states which topics will be created, before the first is
    topics     they are created, and their ids noted
    author     the tool joins the fork's ledger as a process of its own, as a restore does
    channels   what was in flight is appended, on request with the external records since
    state      every row of the snapshot is appended to the changelogs; all is read back
    ready      THE COMMIT POINT of a restore in the fork's ledger: bases and positions, in one go
    groups     the consumer groups of the fork are set, and read back
    done       workers of the fork run

A crash before `done` leaves topics that the ledger of the fork names: the next run removes them and starts over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import ForkFailedError
from snapkafka.kafka.bulk import LogRecord
from snapkafka.ops.restore.appending import Author
from snapkafka.ops.restore.channels import Channel, append_channels, channels
from snapkafka.ops.restore.committing import Restoring
from snapkafka.ops.restore.editing import Editing
from snapkafka.ops.restore.looking import Tables, rows_of_state
from snapkafka.ops.restore.planning import Appended, apps_of, changelogs_of, inputs_of, lowest_positions
from snapkafka.ops.restore.state import Row, keep_all
from snapkafka.ops.restore.topics import NewTopic, Topics
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.forking import prefixed
from snapkafka.protocol.records import Fork, ForkTopic, TopicPartition
from snapkafka.runtime.interrupts import to_its_end

from .planning import in_fork

__all__ = ["NO_LOG", "Forking", "await_gone", "log_starts", "to_copy"]

#: Above every offset: where the log of a topic starts that does not exist.
NO_LOG: Final = 1 << 63
#: Each takes some 300 bytes, and a record of the ledger at most 256 KB.
TOPICS_PER_RECORD: Final = 500
#: A topic that was deleted is unknown to every broker within this time.
GONE_WITHIN_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.1


@dataclass(slots=True, kw_only=True)
class Forking(Restoring):
    """One run of the steps. `work`, `ledger_id` and `plan` are the fork's; `placed` and `tables` the snapshot's.

    Args:
        production_id: of production's ledger, see `wire.headers.ledger_id`.
        editing: leaves out erased keys and masks values, by the names of production.
        with_inputs: copy the external records from each position to now; those that were deleted, from the snapshot.
        expires_ms: since 1970; 0: never.
    """

    topics: Topics
    fork: str
    new: Sequence[NewTopic]
    production_id: int
    source: str
    editing: Editing
    with_inputs: bool = False
    expires_ms: int = 0
    made: list[ForkTopic] = field(default_factory=list)

    @property
    def captured(self) -> Captured:
        return in_fork(self.placed.manifest.captured, self.fork)

    # -- topics -----------------------------------------------------------------------------------------------

    async def create(self) -> None:
        """Create the topics, and state them in the ledger of the fork before and after.

        Raises:
            ForkFailedError: one is there already, so somebody else creates it at the same time.
        """
        self._phase("begun")
        ledger = (await self.topics.describe_topics([self.work.ledger.topic]))[self.work.ledger.topic]
        own = ForkTopic(topic=self.work.ledger.topic, topic_id=ledger.topic_id, partitions=1)
        wanted = [
            own,
            *(ForkTopic(topic=it.topic, partitions=it.partitions) for it in self.new),
        ]
        await self._state_topics("begun", wanted)
        self._phase("topics")
        for it in self.new:
            # A broker creates it whether or not its answer is awaited: later than who removes what is there.
            created = await to_its_end(
                self.topics.create_topic(
                    it.topic, partitions=it.partitions, replicas=it.replicas, settings=it.settings
                )
            )
            if not created:
                raise ForkFailedError(
                    f"topic {it.topic} was created by somebody else meanwhile",
                    hint="see whether another run creates the same fork; then run the command again",
                )
        described = await self.topics.describe_topics([it.topic for it in self.new])
        self.made = [own]
        for it in self.new:
            self.made.append(
                ForkTopic(topic=it.topic, topic_id=described[it.topic].topic_id, partitions=it.partitions)
            )
        await self._state_topics("created", self.made)

    async def _state_topics(self, stage: str, topics: Sequence[ForkTopic]) -> None:
        manifest = self.placed.manifest
        chunks = [topics[at : at + TOPICS_PER_RECORD] for at in range(0, len(topics), TOPICS_PER_RECORD)]
        n = random.getrandbits(62)
        for number, chunk in enumerate(chunks):
            await self._append(
                Fork(
                    n=n + number,
                    plan=self.plan,
                    stage="created" if stage == "created" else "begun",
                    fork=self.fork,
                    source=self.source,
                    snapshot=manifest.id,
                    attempt=manifest.attempt,
                    epoch=manifest.epoch,
                    apps=apps_of(manifest.captured),
                    topics=tuple(chunk),
                    part=number,
                    parts=len(chunks),
                    expires_ms=self.expires_ms,
                    who=self.who,
                )
            )

    # -- what is appended ---------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        self._phase("author")
        author = await self._join()
        ends = dict.fromkeys(sorted({*inputs_of(self.captured), *changelogs_of(self.captured)}), 0)
        self._phase("channels")
        appended = await self._channels(author, ends)
        self._phase("state")
        await self._in_thread(lambda: self._state(author, []))
        await self._commit(author, ends, appended)

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        in_flight, lowest = self.tables.in_flight, lowest_positions(self.placed.manifest.captured)
        ranges, unread = await to_copy(self.admin, self.tables, lowest, with_inputs=self.with_inputs)

        def work() -> dict[TopicPartition, tuple[Appended, ...]]:
            found = channels(self.bulk, ranges, unread, frozenset(lowest), self.production_id)
            return append_channels(self.bulk, author, map(self._translated, found))

        appended = await self._in_thread(work)
        own = {(tp, record.offset) for tp, records in in_flight.items() for record in records}
        production = {TopicPartition(prefixed(self.fork, tp.topic), tp.partition): tp for tp in lowest}
        copied = [(production[tp], it.old) for tp, items in appended.items() for it in items]
        self.appended["messages"] = sum(item in own for item in copied)
        self.appended["inputs"] = len(copied) - self.appended["messages"]
        return appended

    def _translated(self, channel: Channel) -> Channel:
        topic = prefixed(self.fork, channel.tp.topic)
        records = tuple(record._replace(topic=topic) for record in self.editing.edit(channel.records))
        return Channel(TopicPartition(topic, channel.tp.partition), records)

    def _rows(self) -> Iterable[Row]:
        return self._named(self.editing.edit(rows_of_state(self.placed)))

    def _named(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            tp = TopicPartition(prefixed(self.fork, row.tp.topic), row.tp.partition)
            yield Row(tp, row.key, row.value)

    def _marked(self, rows: Iterable[Row]) -> Iterable[tuple[Row, bool]]:
        """`_rows` has left out those of erased keys."""
        return keep_all(rows)

    def _may_have_lost(self, topic: str) -> bool:
        """Every row is written: the changelogs are empty."""
        return True


async def to_copy(
    admin: TopicAdmin, tables: Tables, lowest: Mapping[TopicPartition, int], *, with_inputs: bool
) -> tuple[list[ReadRange], Mapping[TopicPartition, Sequence[LogRecord]]]:
    """Return the ranges of production's log with the external records that a fork copies, and the stored records."""
    starts, now, unread = dict.fromkeys(lowest, 0), dict.fromkeys(lowest, 0), tables.in_flight
    if with_inputs:
        starts = await log_starts(admin, lowest)
        now |= await admin.log_ends([tp for tp in lowest if starts[tp] < NO_LOG])
        unread = tables.unread(lowest, starts)
    return [ReadRange(*tp, max(at, starts[tp]), now[tp]) for tp, at in lowest.items()], unread


async def log_starts(admin: TopicAdmin, lowest: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Read where the logs of production start: `NO_LOG` where a partition does not exist."""
    wanted = list(lowest)
    there = await admin.describe_topics({tp.topic for tp in wanted})
    known = [tp for tp in wanted if tp.topic in there and tp.partition < there[tp.topic].partitions]
    return dict.fromkeys(wanted, NO_LOG) | dict(await admin.log_starts(known))


async def await_gone(admin: TopicAdmin, topics: Iterable[str]) -> None:
    """Wait until no broker knows topics that were deleted.

    Raises:
        ForkFailedError: one is still there.
    """
    wanted = list(topics)
    deadline = asyncio.get_running_loop().time() + GONE_WITHIN_S
    while there := sorted((await admin.describe_topics(wanted)).keys() & set(wanted)):
        if asyncio.get_running_loop().time() > deadline:
            raise ForkFailedError(
                f"topic {there[0]} was deleted and is still there after {GONE_WITHIN_S:g} s",
                hint="see whether delete.topic.enable is on, and run the command again",
            )
        await asyncio.sleep(LOOK_AGAIN_S)
