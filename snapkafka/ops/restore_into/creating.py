"""The steps of a restore into another cluster. They are those of a restore in place, after the topics are created.

    begun      in the ledger of the new cluster: workers of these apps that start hold their inputs
    topics     those that are not there are created
    silence, author, quiet, channels, state, read back, ready, groups, done
               as in place: what was in flight and every row of every table is appended behind the ends

Nothing is deleted. A crash before `ready` leaves records that the next run does not count: they lie below its bases.
External records that producers have sent meanwhile are appended once more behind what was in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.bulk import LogRecord
from snapkafka.ops.restore.appending import Author
from snapkafka.ops.restore.channels import Channel, append_channels, channels
from snapkafka.ops.restore.committing import Restoring
from snapkafka.ops.restore.planning import Appended, lowest_positions
from snapkafka.ops.restore.state import Row, keep_all
from snapkafka.ops.restore.topics import NewTopic, Topics
from snapkafka.protocol.records import TopicPartition

__all__ = ["Recreating"]

#: Added to offsets of the new log: they come after every one of the old.
NEW_LOG: Final = 1 << 62


@dataclass(slots=True, kw_only=True)
class Recreating(Restoring):
    """One run of the steps. `work`, `ledger_id` and `plan` are the new cluster's; `placed` and `tables` the snapshot's.

    Args:
        new: topics of the snapshot, with what they are created with.
    """

    topics: Topics
    new: Sequence[NewTopic]
    created: tuple[str, ...] = ()

    async def _prepare(self) -> None:
        self._phase("topics")
        await self._create()
        await Restoring._prepare(self)

    async def _create(self) -> None:
        """Create the topics that are not there.

        Raises:
            RestoreFailedError: one has another number of partitions by now.
        """
        names = [it.topic for it in self.new]
        there = await self.topics.describe_topics(names)
        created = []
        for it in self.new:
            if it.topic not in there and await self.topics.create_topic(
                it.topic, partitions=it.partitions, replicas=it.replicas, settings=it.settings
            ):
                created.append(it.topic)
        self.created = tuple(created)
        now = await self.topics.describe_topics(names)
        for it in self.new:
            if now[it.topic].partitions != it.partitions:
                raise RestoreFailedError(
                    f"topic {it.topic} was created by somebody else meanwhile, with {now[it.topic].partitions}"
                    f" partitions instead of {it.partitions}",
                    hint="delete it, and run the same command again; see auto.create.topics.enable of the brokers",
                )

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        ranges = await self._readable(dict.fromkeys(lowest_positions(self.captured), 0), ends)

        def work() -> dict[TopicPartition, tuple[Appended, ...]]:
            return dict(append_channels(self.bulk, author, self._in_order(ranges)))

        appended = await self._in_thread(work)
        external = {(tp, it.offset) for tp, records in self.tables.external.items() for it in records}
        old = [(tp, it.old) for tp, items in appended.items() for it in items if it.old < NEW_LOG]
        self.appended["messages"] = sum(it not in external for it in old)
        self.appended["inputs"] = sum(map(len, appended.values())) - self.appended["messages"]
        return appended

    def _in_order(self, ranges: Sequence[ReadRange]) -> Iterator[Channel]:
        """Yield every input: what was still to be read, then external records that are in the new log by now."""
        every = frozenset(TopicPartition(it.topic, it.partition) for it in ranges)
        for found in channels(self.bulk, ranges, {}, every, self.ledger_id, editing=self.editing):
            flying: list[LogRecord] = sorted(
                self.tables.in_flight.get(found.tp, ()), key=lambda record: record.offset
            )
            if self.editing is not None:
                flying = list(self.editing.edit(flying))
            since = (record._replace(offset=record.offset + NEW_LOG) for record in found.records)
            yield Channel(found.tp, (*flying, *since))

    def _settled(self) -> Mapping[TopicPartition, int]:
        """All that an earlier attempt has appended counts as touched."""
        return {}

    def _marked(self, rows: Iterable[Row]) -> Iterable[tuple[Row, bool]]:
        """Leave out the rows of erased keys: only what an earlier attempt has written is deleted."""
        return keep_all(rows if self.editing is None else self.editing.edit(rows))

    def _may_have_lost(self, topic: str) -> bool:
        """Every row is written: the changelogs have none of the old cluster's records."""
        return True
