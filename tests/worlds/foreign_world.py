"""A foreign process beside a worker, on a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from snapkafka import until as waits
from snapkafka.drivers import Bounds, Participant
from snapkafka.drivers.foreign.settings import Marker
from snapkafka.kafka import Record
from snapkafka.kafka.records.writer import UnsettledError
from snapkafka.ports import Topic
from snapkafka.protocol import LedgerState, TopicPartition
from snapkafka.wire import headers
from tests.worlds.fakes import FakeAdmin, FakeCluster

#: Where the state of the process `till` lies.
STATE = TopicPartition("_snapkafka-state.ns.till", 0)


class ForeignAdmin(FakeAdmin):
    """Topics that are created exist."""

    async def describe_topics(self, topics: Collection[str] | None = None) -> dict[str, Topic]:
        await self._answer()
        return {name: topic for name, topic in self.topics.items() if topics is None or name in topics}

    async def create_topic(self, topic: str, **options: Any) -> bool:
        self.topics.setdefault(topic, Topic(1))
        self.ends.setdefault(TopicPartition(topic, 0), 0)
        return True


class FakeWriter:
    """A log in memory: of each partition (key, value, stamp). `unsettled`: how many results are still to get lost;
    `gate`: acknowledgements wait for it."""

    def __init__(self, admin: ForeignAdmin) -> None:
        self.admin = admin
        self.log: dict[TopicPartition, list[tuple[bytes | None, bytes | None, headers.Stamp]]] = {}
        self.unsettled = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def partition_of(self, topic: str, key: bytes | None) -> int:
        return 0

    async def append(
        self, tp: TopicPartition, key: bytes | None, value: bytes | None, header: bytes
    ) -> Awaitable[int]:
        stamp = headers.read(header, 0, headers.tp_check(*tp))
        assert stamp is not None
        log = self.log.setdefault(tp, [])
        log.append((key, value, stamp))
        offset = len(log) - 1
        self.admin.ends[tp] = len(log)
        lost = self.unsettled > 0
        self.unsettled -= lost

        async def settled() -> int:
            await self.gate.wait()
            if lost:
                raise UnsettledError("a time-out")
            return offset

        return settled()

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]:
        return {key for key, value in self.folded(tp).items() if value is not None}

    def folded(self, tp: TopicPartition, before: int | None = None) -> dict[bytes, bytes | None]:
        """The last value of each key; `before`: of what is white for that epoch alone."""
        return {
            key: value
            for key, value, stamp in self.log.get(tp, ())
            if key is not None and (before is None or stamp.epoch < before)
        }

    def state(self, epoch: int) -> dict[bytes, bytes]:
        """The state that a snapshot holds."""
        return {key: value for key, value in self.folded(STATE, epoch).items() if value is not None}


class FakeConsumer:
    """The inputs of a process, in memory, and what its group commits."""

    def __init__(self, admin: ForeignAdmin, group: str = "till") -> None:
        self.admin, self.group = admin, group
        self.log: dict[TopicPartition, list[Record]] = {}
        self.at: dict[TopicPartition, int] = {}
        self.asked: list[set[TopicPartition]] = []  # of each read, the partitions
        self.closed = False
        self.failure: Exception | None = None

    def put(self, tp: TopicPartition, value: bytes | None, header: bytes | None, key: bytes = b"k") -> int:
        """Append a record; its offset."""
        log = self.log.setdefault(tp, [])
        offset = len(log)
        log.append(Record(tp, offset, key, value, header, 1_000 + offset))
        self.admin.ends[tp] = len(log)
        return offset

    def white(self, tp: TopicPartition, value: bytes, epoch: int = 0, process: int = 0) -> int:
        """Append a record of that colour."""
        header = headers.stamp(0, headers.tp_check(*tp), epoch, process, len(self.log.get(tp, ())))
        return self.put(tp, value, header)

    async def start(self, positions: Mapping[TopicPartition, int]) -> None:
        self.at = dict(positions)

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        assert positions.keys() <= self.at.keys(), "all that is assigned"
        self.at |= positions

    async def read(self, tps: Collection[TopicPartition], within_ms: int) -> list[Record]:
        self.asked.append(set(tps))
        if self.failure is not None:
            raise self.failure
        found = [record for tp in tps for record in self.log.get(tp, ())[self.at[tp] :]]
        for record in found:
            self.at[record.tp] = record.offset + 1
        if not found:
            await asyncio.sleep(0.005)
        return found

    async def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        if self.failure is not None:
            raise self.failure
        self.admin.commits.setdefault(self.group, {}).update(positions)

    async def close(self) -> None:
        self.closed = True


def participant(
    cluster: FakeCluster,
    writer: FakeWriter,
    *,
    node: str = "till",
    bounds: Bounds | None = None,
    consumer: FakeConsumer | None = None,
) -> Participant:
    return Participant(
        namespace="ns",
        node=node,
        ledger=cluster.the_ledger,
        admin=writer.admin,
        writer=writer,
        consumer=consumer or FakeConsumer(writer.admin, node),
        codec="json",
        host="box",
        bounds=bounds,
    )


async def marker_of(process: Participant, seconds: float = 60.0) -> Marker:
    """The next notice, which is a marker."""
    notice = await asyncio.wait_for(process.notices.get(), seconds)
    assert isinstance(notice, Marker), notice
    return notice


def view(cluster: FakeCluster) -> LedgerState:
    """The fold of the ledger as it is."""
    state = LedgerState()
    for entry in cluster.the_ledger.entries:
        state.apply(entry.offset, entry.record)
    return state


async def until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition."""
    await waits.until(holds, seconds, what, every_s=0.002)
