"""The facts on which a recovery is based: tables, groups, sizes. Nothing is changed here."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.cluster.group_hold import HOLDER
from snapkafka.kafka.cluster.groups import Member
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import STATE
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.records import TopicPartition
from snapkafka.query.engine import Placed, engine
from snapkafka.query.manifest_check import trusted

from .state import Row

#: Rows taken from DuckDB at once.
BATCH_ROWS: Final = 10_000


class Hold(Protocol):
    """A consumer group that no other member may join: `kafka.cluster.group_hold`."""

    group: str

    async def acquire(self) -> None:
        """Join the group as its only member; raise GroupTakenError if it has members."""

    def require(self) -> None:
        """Check that it is still held; raise OvertakenError if not."""

    async def commit(self, positions: Mapping[TopicPartition, int], note: str) -> None:
        """Set offsets as its member; raise OvertakenError if the hold was lost."""

    async def release(self) -> None:
        """Leave the group."""


class GroupAdmin(TopicAdmin, Protocol):
    """The requests about consumer groups and topics in a recovery."""

    async def group_members(self, group: str) -> Sequence[Member]:
        """List the members of a group."""

    async def committed(self, group: str) -> Mapping[TopicPartition, tuple[int, str]]:
        """Return the committed offsets of a group: position and note of each partition."""

    def hold(self, group: str) -> Hold:
        """Create a hold of a group, which is still to be acquired."""


async def workers_of(admin: GroupAdmin, apps: Iterable[str]) -> dict[str, int]:
    """Count the members of each app's group, without a restore that holds it."""
    return {app: sum(it.client != HOLDER for it in await admin.group_members(app)) for app in apps}


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Records that would be appended to a topic with their own timestamps (ms): their number and bytes, the oldest and
    the youngest time, and the largest size of key, value and headers together (bytes)."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    youngest_ms: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTables:
    """A summary of the tables of a snapshot. `in_flight`: the table `messages`, each record once. `state`: by
    changelog topic, the number of rows, and the size of the largest (bytes). `damage`: what is wrong with the files.
    `external`: the table `inputs`."""

    in_flight: Mapping[TopicPartition, Sequence[KafkaRecord]]
    state: Mapping[str, tuple[int, int]]
    damage: str = ""
    external: Mapping[TopicPartition, Sequence[KafkaRecord]] = field(default_factory=dict)

    def unread(
        self, lowest: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, list[KafkaRecord]]:
        """Return messages in flight and the external records from the lowest positions on, by their old offsets.

        Args:
            starts: of the logs, if they still exist: external records from there on are left out.
        """
        found = {tp: list(records) for tp, records in self.in_flight.items()}
        for tp, records in self.external.items():
            kept = [
                record
                for record in records
                if tp in lowest
                and record.offset >= lowest[tp]
                and (starts is None or record.offset < starts.get(tp, 0))
            ]
            if kept:
                found[tp] = sorted([*found.get(tp, ()), *kept], key=lambda record: record.offset)
        return found


async def load(placed: Placed) -> StoredTables:
    """Read the tables, after comparing their files with the manifest."""
    try:
        await trusted(None, [placed])
    except SnapkafkaError as error:
        return StoredTables(in_flight={}, state={}, damage=error.message)
    return await asyncio.to_thread(_load, placed)


def _load(placed: Placed) -> StoredTables:
    with engine({"main": placed}) as database:
        found = database.execute(
            'SELECT DISTINCT ON (topic, "partition", "offset") topic, "partition", "offset", key_raw, value_raw,'
            " headers, timestamp_ms FROM messages"
        ).fetchall()
        external = (
            database.execute(
                'SELECT topic, "partition", "offset", key_raw, value_raw, headers, timestamp_ms FROM inputs'
            ).fetchall()
            if placed.manifest.inputs
            else []
        )
        sizes = database.execute(
            "SELECT changelog_topic, count(*), max(size) FROM (SELECT changelog_topic,"
            " coalesce(octet_length(key_raw), 0) + coalesce(octet_length(value_raw), 0) AS size FROM state)"
            " GROUP BY changelog_topic"
        ).fetchall()
    return StoredTables(
        in_flight=_by_partition(found),
        external=_by_partition(external),
        state={topic: (int(count), int(largest)) for topic, count, largest in sizes},
    )


def _by_partition(rows: Iterable[tuple[Any, ...]]) -> dict[TopicPartition, list[KafkaRecord]]:
    found: dict[TopicPartition, list[KafkaRecord]] = defaultdict(list)
    for topic, partition, offset, key, value, headers, timestamp_ms in rows:
        own = tuple((header["key"], header["value"]) for header in headers or ())
        record = KafkaRecord(
            topic, partition, offset, key, value, own, -1 if timestamp_ms is None else timestamp_ms
        )
        found[record.tp].append(record)
    return dict(found)


def rows_of_state(placed: Placed) -> Iterable[Row]:
    """Read the rows of the table `state`, with those of its parents if the snapshot is incremental, in the order of
    partitions."""
    with engine({"main": placed}) as database:
        done = database.execute(
            f'SELECT changelog_topic, "partition", key_raw, value_raw FROM {STATE} ORDER BY 1, 2'
        )
        while rows := done.fetchmany(BATCH_ROWS):
            for topic, partition, key, value in rows:
                yield Row(TopicPartition(topic, partition), key, value)


def carried_by(records: Iterable[KafkaRecord]) -> dict[str, Carried]:
    """Sum up records that are appended with their own timestamps, by topic."""
    found: dict[str, Carried] = {}
    for record in records:
        so_far = found.get(record.topic, Carried())
        parts = (
            record.key,
            record.value,
            *(part for name, of in record.headers for part in (name.encode(), of)),
        )
        size = sum(len(part) for part in parts if part is not None)
        at_ms, first = record.timestamp_ms, not so_far.records
        found[record.topic] = Carried(
            records=so_far.records + 1,
            bytes=so_far.bytes + size,
            oldest_ms=at_ms if first else min(so_far.oldest_ms, at_ms),
            youngest_ms=at_ms if first else max(so_far.youngest_ms, at_ms),
            largest=max(so_far.largest, size),
        )
    return found
