"""What a recovery is based on: the tables of a snapshot, its topics, and the settings that these need so that nothing
that is appended is refused or deleted. Nothing is changed here.

Messages in flight keep their old timestamps and get a header, so a broker may refuse them, or delete them within
minutes. A new topic is created with the settings of the snapshot's, except for those; what holds after its creation is
read, for the defaults of its broker count as well. A topic that is there is not changed: a restore is refused by name.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka import HOLDER, KafkaRecord, KafkaTopicAdmin
from snapkafka.manifest import STATE, Manifest
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.query.engine import Placed, engine
from snapkafka.query.manifest_check import compared_files
from snapkafka.topic_config import TopicSettings
from snapkafka.units import wall_ms

from .state import NEW, parts_of

#: Rows taken from DuckDB at once.
BATCH_ROWS: Final = 10_000
#: Above every offset: where the log of a topic starts that does not exist.
NO_LOG: Final = 1 << 63


async def workers_of(admin: KafkaTopicAdmin, apps: Iterable[str]) -> dict[str, int]:
    """Count the members of each app's group, without a restore that holds it."""
    return {app: sum(it.client != HOLDER for it in await admin.group_members(app)) for app in apps}


class Carried(NamedTuple):
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
        """Return messages in flight and the external records from the lowest positions on, by their old offsets; none
        that the logs still hold, if their `starts` are given."""
        found = {tp: list(records) for tp, records in self.in_flight.items()}
        for tp, records in self.external.items():
            first, end = lowest.get(tp, NO_LOG), NO_LOG if starts is None else starts.get(tp, 0)
            if kept := [record for record in records if first <= record.offset < end]:
                found[tp] = sorted([*found.get(tp, ()), *kept], key=lambda record: record.offset)
        return found


async def load(placed: Placed) -> StoredTables:
    """Read the tables, after comparing their files with the manifest."""
    try:
        await asyncio.to_thread(compared_files, [placed])
    except SnapkafkaError as error:
        return StoredTables(in_flight={}, state={}, damage=error.message)
    return await asyncio.to_thread(_load, placed)


#: What is appended of the tables `messages` and `inputs`.
RECORDS: Final = 'topic, "partition", "offset", key_raw, value_raw, headers, timestamp_ms'
#: Of each changelog the number of its rows, and the size of the largest.
SIZES: Final = """
SELECT changelog_topic, count(*), max(coalesce(octet_length(key_raw), 0) + coalesce(octet_length(value_raw), 0))
FROM state GROUP BY changelog_topic
"""


def _load(placed: Placed) -> StoredTables:
    with engine({"main": placed}) as database:

        def records(table: str) -> dict[TopicPartition, list[KafkaRecord]]:
            found: dict[TopicPartition, list[KafkaRecord]] = defaultdict(list)
            rows = f'SELECT DISTINCT ON (topic, "partition", "offset") {RECORDS} FROM {table}'
            for topic, partition, offset, key, value, headers, at_ms in database.execute(rows).fetchall():
                own = tuple((header["key"], header["value"]) for header in headers or ())
                record = KafkaRecord(
                    topic, partition, offset, key, value, own, -1 if at_ms is None else at_ms
                )
                found[record.tp].append(record)
            return dict(found)

        return StoredTables(
            in_flight=records("messages"),
            external=records("inputs") if placed.manifest.inputs else {},
            state={
                topic: (int(count), int(largest))
                for topic, count, largest in database.execute(SIZES).fetchall()
            },
        )


def rows_of_state(placed: Placed) -> Iterator[KafkaRecord]:
    """Read the rows of the table `state`, with those of its parents if the snapshot is incremental, in the order of
    partitions."""
    with engine({"main": placed}) as database:
        done = database.execute(
            f'SELECT changelog_topic, "partition", key_raw, value_raw FROM {STATE} ORDER BY 1, 2'
        )
        while rows := done.fetchmany(BATCH_ROWS):
            for topic, partition, key, value in rows:
                yield KafkaRecord(topic, partition, NEW, key, value, (), NEW)


def carried_by(records: Iterable[KafkaRecord]) -> dict[str, Carried]:
    """Sum up records that are appended with their own timestamps, by topic."""
    found = defaultdict[str, list[tuple[int, int]]](list)
    for record in records:
        headers = (part for name, of in record.headers for part in (name.encode(), of))
        size = sum(len(part) for part in (record.key, record.value, *headers) if part is not None)
        found[record.topic].append((size, record.timestamp_ms))
    summed = {topic: tuple(zip(*of, strict=True)) for topic, of in found.items()}
    return {
        topic: Carried(len(sizes), sum(sizes), min(times), max(times), max(sizes))
        for topic, (sizes, times) in summed.items()
    }


#: Our header on a record that is appended, with its name and lengths, and Kafka's own of a record and its batch.
ADDED_BYTES: Final = 32 + 100
#: Apps have so long to catch up before their messages may be deleted, or half of what the topic keeps, if that is less.
CATCH_UP_MS: Final = 86_400_000
#: In settings of times, and of retention: no bound.
ENDLESS: Final = str(2**63 - 1)
FOREVER: Final = "-1"
#: What a changelog needs, whatever was recorded. If records of a table are deleted by age as well, as Faust does for
#: windows, state is lost that no app writes again; of a set compaction would keep only the last member.
TABLE: Final = {"cleanup.policy": "compact"}
SETS: Final = {"cleanup.policy": "delete", "retention.ms": FOREVER, "retention.bytes": FOREVER}


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. `of`: its original. `changed`: settings that differ from the original."""

    topic: str
    of: str
    partitions: int
    settings: Mapping[str, str]
    changed: Mapping[str, str] = field(default_factory=dict)


def topics_of(manifest: Manifest) -> dict[str, int]:
    """Count the partitions of each topic of a snapshot: inputs, changelogs and outputs."""
    counts: defaultdict[str, int] = defaultdict(int)
    for part in (*parts_of(manifest.captured), *manifest.captured.senders):
        counts[part.topic] = max(counts[part.topic], part.partition + 1)
    return dict(sorted(counts.items())) | {it.name: it.partitions for it in manifest.topics}


def new_topics(
    manifest: Manifest, contents: Contents, defaults: Mapping[str, str], named: Callable[[str], str]
) -> tuple[NewTopic, ...]:
    """Compute the topics to create for a snapshot, as it has recorded them, on a cluster with these defaults."""
    recorded = {it.name: it.settings for it in manifest.topics}

    def new(name: str, partitions: int) -> NewTopic:
        own = recorded.get(name, {})
        holding = {**defaults, **own}
        changes = contents.changes(name, holding, recorded=own) if holding else {}
        return NewTopic(named(name), name, partitions, {**own, **changes}, changes)

    return tuple(new(*it) for it in topics_of(manifest).items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The records that topics get, by the names of the snapshot. `carried`: of each input. `largest`: the largest row
    of each changelog (bytes)."""

    captured: Captured
    carried: Mapping[str, Carried]
    largest: Mapping[str, int]

    def changes(
        self, of: str, holding: Mapping[str, str], *, recorded: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Find the settings of a topic that would lose or refuse its records, as they would have to be.

        Args:
            of: its name in the snapshot.
            holding: its effective settings.
            recorded: those on the topic of the snapshot itself, if this one is created for it.
        """
        changelog = next((cut for cut in self.captured.changelogs if cut.topic == of), None)
        carried, fresh, found = self.carried.get(of, Carried()), recorded is not None, dict[str, str]()
        size, limits = carried.largest, list[tuple[str, int, str]]()
        if changelog is not None:
            size = self.largest.get(of, 0)
            wanted = SETS if changelog.sets else TABLE
            found = {name: it for name, it in wanted.items() if fresh and holding.get(name) != it}
        elif carried.records:
            settings = TopicSettings.parse(holding)
            if fresh and settings.compacts and "compact" not in (recorded or {}).get("cleanup.policy", ""):
                found["cleanup.policy"] = "delete"  # else messages of one key, or without one, were lost
            deletes = settings.deletes or bool(found)
            limits = list(_limits(carried, holding, deletes=deletes, fresh=fresh))
        if size:
            limits.append(("max.message.bytes", size + ADDED_BYTES, str(size + ADDED_BYTES)))
        return found | {
            name: to for name, least, to in limits if 0 <= int(holding.get(name, FOREVER)) < least
        }


def _limits(
    carried: Carried, holding: Mapping[str, str], *, deletes: bool, fresh: bool
) -> Iterator[tuple[str, int, str]]:
    """Yield what messages need of the limits of their topic: a setting, how much at least, and what it becomes."""
    if deletes:
        yield "retention.bytes", carried.bytes + carried.records * ADDED_BYTES, FOREVER
    if TopicSettings.parse(holding).append_time:
        return  # times are those of the append
    age_ms, ahead_ms = wall_ms() - carried.oldest_ms, carried.youngest_ms - wall_ms()
    if deletes:
        catch_up_ms = min(CATCH_UP_MS, int(holding.get("retention.ms", FOREVER)) // 2)
        yield "retention.ms", age_ms + catch_up_ms * fresh, FOREVER
    yield "message.timestamp.before.max.ms", age_ms, ENDLESS
    yield "message.timestamp.after.max.ms", ahead_ms, ENDLESS
    yield "message.timestamp.difference.max.ms", max(age_ms, ahead_ms), ENDLESS  # of brokers before 3.6
