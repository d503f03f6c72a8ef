"""The logs of a cluster in memory, by the ports for bulk work and for topics."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from snapkafka.kafka import KafkaRecord
from snapkafka.ports import NO_TOPIC, Group
from snapkafka.protocol import TopicPartition
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeAdmin

#: The ledger whose processes append.
LEDGER = wire.ledger_id(bytes.fromhex(NO_TOPIC))


@dataclass
class FakeLog:
    """`KafkaBulk` and the ends of `FakeAdmin`, on lists. `appended`: called before each append."""

    records: dict[TopicPartition, list[KafkaRecord]] = field(default_factory=lambda: defaultdict(list))
    appended: Callable[[KafkaRecord], None] = lambda record: None
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    removed: Collection[tuple[TopicPartition, int]] = ()  # by compaction
    batch_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)

    def put(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, *, by: int = -1, epoch: int = 0
    ) -> int:
        offset = len(self.records[tp])
        place = (LEDGER, wire.tp_check(*tp), epoch, max(0, by), offset)
        is_marker = value is None and wire.is_marker_key(key)
        stamp = wire.marker(*place, 0) if is_marker else wire.stamp(*place)
        headers = ((wire.HEADER, stamp),) if by >= 0 else (("trace", b"1"), ("trace", None))
        self.records[tp].append(KafkaRecord(*tp, offset, key, value, headers, 1_000 + offset))
        return offset

    def read(self, ranges: Sequence[tuple[str, int, int, int]]) -> Iterator[KafkaRecord]:
        for topic, partition, start, end in ranges:
            first = self.starts.get(TopicPartition(topic, partition), 0)
            assert start >= min(first, end), "what is gone cannot be read"
            for record in self.records[TopicPartition(topic, partition)][start:end]:
                if (record.tp, record.offset) not in self.removed:
                    yield record

    def append(self, records: Iterable[KafkaRecord]) -> dict[TopicPartition, list[int]]:
        offsets: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        for record in records:
            self.appended(record)
            found = self.records[record.tp]
            at_ms = 5_000 if record.timestamp_ms < 0 else record.timestamp_ms
            offsets[record.tp].append(len(found))
            found.append(record._replace(offset=len(found), timestamp_ms=at_ms))
        return offsets


class Admin(FakeAdmin):
    """`FakeAdmin` whose logs are those of a `FakeLog`. Topics of forks can be deleted, and their logs with them."""

    log: FakeLog
    in_transaction: Mapping[TopicPartition, int] = MappingProxyType({})  # from these offsets on

    async def groups(self) -> list[Group]:
        forked = [group for group in self.commits if group.startswith("fork.")]
        return [Group(name, frozenset(), await self.group_members(name)) for name in forked]

    async def delete_topics(self, *topics: str) -> None:
        for topic in topics:
            assert topic.removeprefix("_snapkafka.").startswith("fork."), "nothing else is deleted"
            for named in (self.topics, self.ledgers, self.settings):
                named.pop(topic, None)
            for of_partitions in list[Any]((self.log.records, *self.commits.values())):
                for tp in [tp for tp in of_partitions if tp.topic == topic]:
                    del of_partitions[tp]

    async def delete_groups(self, *groups: str) -> None:
        assert all(group.startswith("fork.") for group in groups), "nothing else is deleted"
        for group in groups:
            self.commits.pop(group, None)

    async def log_ends(
        self, partitions: Iterable[TopicPartition], *, stable: bool = False
    ) -> dict[TopicPartition, int]:
        ends = {tp: len(self.log.records[tp]) for tp in partitions if tp.topic in self.topics}
        return {tp: self.in_transaction.get(tp, end) for tp, end in ends.items()} if stable else ends

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await super().log_starts(tp for tp in partitions if tp.topic in self.topics)
