"""A cluster in memory that implements the ports, with processes that answer a trigger as real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from snapkafka.errors import LedgerUnusableError, OvertakenError
from snapkafka.kafka import HOLDER, GroupTakenError
from snapkafka.kafka.ledger.kafka_ledger import behind_checkpoint
from snapkafka.ports import NO_TOPIC, Entry, Group, Member, Topic
from snapkafka.protocol import ChangelogEnd, Hello, InputTopic, LedgerState, Report, Table, TopicPartition
from snapkafka.protocol.offsets import Position, SentEnd
from snapkafka.protocol.records import Assigned, LedgerRecord, Trigger


def fake_group(name: str, topics: frozenset[str] | None, members: Sequence[str] = ("m",)) -> Group:
    """A group with these members."""
    return Group(name, topics, [Member(member, "worker", "/box") for member in members])


class FakeLedger:
    """`ports.Ledger`. `listeners` are told of every append, and may append themselves."""

    ledger_id = 0

    def __init__(
        self, topic: str = "_snapkafka.fake", topic_id: str = NO_TOPIC, *, exists: bool = True
    ) -> None:
        self.topic, self.topic_id, self.exists = topic, topic_id, exists
        self.entries: list[Entry] = []
        self.failure: Exception | None = None
        self.listeners: list[Callable[[int, LedgerRecord], None]] = []
        self.clock_ms = 1_000_000
        self.first = 0

    async def open(self, *, create: bool = True) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.exists and not create:
            raise LedgerUnusableError(f"there is no ledger {self.topic}")
        self.exists = True

    def put(self, record: LedgerRecord | None) -> int:
        offset = len(self.entries)
        self.clock_ms += 1
        self.entries.append(Entry(offset, self.clock_ms, record))
        if record is not None:
            for listener in self.listeners:
                listener(offset, record)
        return offset

    @property
    def state(self) -> LedgerState:
        """The fold of it."""
        state = LedgerState()
        for entry in self.entries:
            state.apply(entry.offset, entry.record)
        return state

    async def append(self, record: LedgerRecord) -> int:
        return self.put(record)

    async def read(
        self, start: int = 0, *, until: int | None = None, rest: Any = None
    ) -> AsyncIterator[Entry]:
        at = start
        while until is None or at < until:
            if at < self.first:
                for entry in behind_checkpoint(self.topic, self.first, self.entries[self.first :]):
                    yield entry
                    at = entry.offset + 1
            if at < len(self.entries):
                yield self.entries[at]
                at += 1
            else:
                if rest is not None:
                    await rest()
                await asyncio.sleep(0.001)  # no event: it has one loop, and each command its own

    async def end(self) -> int:
        return len(self.entries)

    async def trim(self, upto: int) -> None:
        self.first = upto

    async def close(self) -> None:
        pass


@dataclass(eq=False)
class FakeHold:
    """The hold of a group of a `FakeAdmin`; the session of a holder ends when `expire` is called."""

    admin: FakeAdmin
    group: str

    async def acquire(self) -> None:
        if self.group in self.admin.held or self.admin.busy(self.group):
            raise GroupTakenError(self.group)
        self.admin.held[self.group] = self

    def require(self) -> None:
        if self.admin.held.get(self.group) is not self:
            raise OvertakenError(f"this run no longer holds consumer group {self.group}")

    def expire(self) -> None:
        if self.admin.held.get(self.group) is self:
            del self.admin.held[self.group]

    async def commit(self, positions: Mapping[TopicPartition, int], note: str) -> None:
        self.require()
        self.admin.commits.setdefault(self.group, {}).update(positions)
        self.admin.noted = {note}

    async def release(self) -> None:
        self.expire()


@dataclass
class FakeAdmin:
    """`ports.TopicAdmin`. `failure` is raised by everything that asks."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    times: dict[TopicPartition, int] = field(default_factory=dict)  # of every record of a partition
    headers_at: dict[tuple[TopicPartition, int], list[tuple[str, bytes | None]]] = field(default_factory=dict)
    known_groups: list[Group] = field(default_factory=list)
    commits: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)  # by group
    topics: dict[str, Topic] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # made on the topic itself
    refusals: dict[str, str] = field(default_factory=dict)  # topic -> why it is not created
    other: dict[str, int] = field(default_factory=dict)  # topic -> its partitions, created by another client
    made: int = 0
    failure: Exception | None = None
    delay_s: float = 0.0
    member_counts: list[int] = field(default_factory=list)  # of groups, one answer after the other; then 0
    member_failure: Exception | None = None
    held: dict[str, FakeHold] = field(default_factory=dict)  # by group
    noted: set[str] = field(default_factory=set)  # of the last commit of a holder
    ledgers: dict[str, FakeLedger] = field(default_factory=dict)  # by topic

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, Topic]:
        there = self.topics or {tp.topic: Topic(1) for tp in self.ends}
        there = there | {name: Topic(1, it.topic_id) for name, it in self.ledgers.items() if it.exists}
        return {name: it for name, it in there.items() if topics is None or name in topics}

    async def topic_settings(self, topic: str) -> tuple[dict[str, str], dict[str, str]]:
        await self._answer()
        own = self.settings.get(topic, {})
        return {
            "cleanup.policy": "delete",
            "retention.ms": "604800000",
            "min.compaction.lag.ms": "0",
            "delete.retention.ms": "86400000",
        } | own, own

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replicas: int | None = None,
        settings: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> bool:
        await self._answer()
        if topic in self.topics:
            return False
        if topic in self.refusals:
            raise LedgerUnusableError(f"could not create topic {topic}: {self.refusals[topic]}")
        if not validate_only:
            self.made += 1
            self.topics[topic] = Topic(self.other.get(topic, partitions), f"{self.made:032x}")
            self.settings[topic] = dict(settings or {})
            self.ends |= {TopicPartition(topic, n): 0 for n in range(partitions)}
        return topic not in self.other

    async def topic_defaults(self) -> dict[str, str]:
        return (await self.topic_settings(""))[0]

    async def record_headers(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[tuple[str, bytes | None]]]:
        await self._answer()
        return {tp: self.headers_at[tp, at] for tp, at in positions.items() if (tp, at) in self.headers_at}

    async def log_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        await self._answer()
        return {tp: self.ends[tp] for tp in partitions if tp in self.ends}

    async def log_starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        await self._answer()
        return {tp: self.starts.get(tp, 0) for tp in partitions}

    async def record_times(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        await self._answer()
        return {tp: self.times[tp] for tp in positions if tp in self.times}

    async def committed(self, group: str) -> dict[TopicPartition, tuple[int, str]]:
        await self._answer()
        return {tp: (offset, "") for tp, offset in self.commits.get(group, {}).items()}

    def busy(self, group: str) -> bool:
        """Has a group workers, which refuse a holder?"""
        return bool(self.member_counts and self.member_counts[0])

    async def group_members(self, group: str) -> tuple[Member, ...]:
        """The holder, or as many workers as `member_counts` has for this time that it is asked."""
        if group in self.held:
            return (Member("holder", HOLDER, "/box"),)
        await self._answer()
        if self.member_failure is not None:
            raise self.member_failure
        number = self.member_counts.pop(0) if self.member_counts else 0
        return tuple(Member(f"m{n}", "worker", "/box") for n in range(number))

    def hold(self, group: str) -> FakeHold:
        return FakeHold(self, group)

    async def groups(self) -> list[Group]:
        await self._answer()
        return self.known_groups

    async def close(self) -> None:
        pass

    async def _answer(self) -> None:
        await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure


class FakeCluster:
    """`ports.Cluster` with one ledger, whatever the namespace, but for those that the admin client knows; a fork gets
    one of its own, which does not exist yet."""

    def __init__(self) -> None:
        self.the_ledger = FakeLedger()
        self.the_admin = FakeAdmin()

    def ledger(self, namespace: str) -> FakeLedger:
        topic, ledgers = f"_snapkafka.{namespace}", self.the_admin.ledgers
        if namespace.startswith("fork."):
            ledgers.setdefault(topic, FakeLedger(topic, "f" * 32, exists=False))
        return ledgers.get(topic, self.the_ledger)

    def admin(self) -> FakeAdmin:
        return self.the_admin


class Worker:
    """A process that reads one topic, and reports as soon as it reads a trigger.

    Args:
        reports: False for one that does not get there.
        sends: topics that it has sent to.
        uncaptured: what of its app no snapshot holds.
        changelog: that of its table `t`, if it has one; `written`: where its partitions end, as they are cut.
        member: its id in its consumer group.
    """

    def __init__(
        self,
        ledger: FakeLedger,
        app: str,
        topic: str,
        *,
        partitions: int = 1,
        reports: bool = True,
        sends: tuple[str, ...] = (),
        changelog: str = "",
        uncaptured: tuple[str, ...] = (),
        member: str = "",
    ) -> None:
        self._changelog, self.written = changelog, 10
        self.position, self.marker, self.recreated = 10, -1, False
        self._ledger, self._n, self._epoch = ledger, count(1), 0
        self._reports, self._sends = reports, sends
        self.tps = tuple(TopicPartition(topic, partition) for partition in range(partitions))
        tables = (Table(name="t", changelog=changelog, partitions=partitions),) if changelog else ()
        reads: Any = {"inputs": (InputTopic(topic=topic, partitions=partitions),), "tables": tables}
        self.process = ledger.put(
            Hello(n=1_000 + len(ledger.entries), app=app, host="box", pid=7, uncaptured=uncaptured, **reads)
        )
        self.assigned = ledger.put(
            Assigned(process=self.process, n=next(self._n), generation=1, inputs=self.tps, member=member)
        )
        ledger.listeners.append(self._heard)

    def _heard(self, offset: int, record: LedgerRecord) -> None:
        if not isinstance(record, Trigger) or not self._reports:
            return
        previous, self._epoch = self._epoch, offset + 1
        positions = [Position(agent="a", topic=t, partition=p, offset=self.position) for t, p in self.tps]
        changelogs = [
            ChangelogEnd(table="t", topic=self._changelog, partition=tp.partition, end=self.written)
            for tp in self.tps
            if self._changelog
        ]
        end: Any = {"partition": 0, "white_end": 1, "last_seq": 0, "marker": self.marker}
        report = Report(
            process=self.process,
            n=next(self._n),
            epoch=self._epoch,
            previous=previous,
            heard="ledger",
            assigned=self.assigned,
            positions=tuple(positions),
            cut_us=90,
            changelogs=tuple(changelogs),
            sent=tuple(SentEnd(topic=to, recreated=self.recreated, **end) for to in self._sends),
        )
        self._ledger.put(report)
