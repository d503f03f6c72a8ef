"""A remote process beside a worker, on a cluster in memory."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from aiokafka import TopicPartition as KafkaPartition

from snapkafka import until as waits
from snapkafka.drivers import Bounds, Participant
from snapkafka.drivers.remote.inputs import Marker
from snapkafka.kafka import Connection, KafkaRecord
from snapkafka.kafka.records.read import KafkaConsumer
from snapkafka.protocol import Captured, LedgerState, TopicPartition
from snapkafka.protocol.records import Trigger
from snapkafka.protocol.snapshots import Failure
from snapkafka.wire import headers
from tests.worlds.fakes import FakeAdmin, FakeCluster
from tests.worlds.memory_broker import Broker

#: Where the state of the process `till` lies.
STATE = TopicPartition("_snapkafka-state.ns.till", 0)
UNKNOWN = -1


class RemoteBroker(Broker):
    """The topics of an admin client. `unsettled`: how many answers are still to tell nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.admin, self.unsettled = FakeAdmin(), 0

    async def started(self) -> Any:
        """Start a producer."""
        known = {name: topic.partitions for name, topic in self.admin.topics.items()}
        self.topics = {"deposits": 1, **known}
        return self.producer(acks="all", enable_idempotence=True, linger_ms=0)

    def _append(self, number: int, tp: Any, data: bytes) -> tuple[int, int, int, int, int]:
        answer = super()._append(number, tp, data)
        self.admin.ends[TopicPartition(*tp)] = len(self.log[tp])
        if self.unsettled:
            self.unsettled -= 1
            return tp.partition, UNKNOWN, -1, -1, 0
        return answer

    def stamps_of(self, tp: TopicPartition) -> list[Any]:
        return [stored.stamp(tp, 0) for stored in self.log[tp]]

    def folded(self, tp: TopicPartition, before: int | None = None) -> dict[bytes, bytes]:
        """The last value of each key; `before`: of what is white for that epoch alone."""
        found = {}
        for stored in self.log[KafkaPartition(*tp)]:
            stamp: Any = stored.stamp(tp, 0)
            if before is None or stamp.epoch < before:
                found[stored.record.key] = stored.record.value
        return {key: value for key, value in found.items() if value is not None}

    def state(self, epoch: int) -> dict[bytes, bytes]:
        """The state that a snapshot holds."""
        return self.folded(STATE, epoch)


class FakeConsumer:
    """The inputs of a process, in memory, and what its group commits."""

    def __init__(self, broker: RemoteBroker, group: str = "till") -> None:
        self.broker, self.admin, self.group = broker, broker.admin, group
        self.log: dict[TopicPartition, list[KafkaRecord]] = {}
        self.at: dict[TopicPartition, int] = {}
        self.asked: list[set[TopicPartition]] = []  # of each read, the partitions
        self.closed = False
        self.failure: Exception | None = None

    def put(self, tp: TopicPartition, value: bytes | None, header: bytes | None, key: bytes = b"k") -> int:
        """Append a record; its offset."""
        log = self.log.setdefault(tp, [])
        offset = len(log)
        headers_ = () if header is None else ((headers.HEADER, header),)
        log.append(KafkaRecord(*tp, offset, key, value, headers_, 1_000 + offset))
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

    async def read(self, tps: Collection[TopicPartition], within_ms: int) -> list[KafkaRecord]:
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

    async def standing_keys(self, tp: TopicPartition) -> set[bytes]:
        return set(self.broker.folded(tp))

    async def close(self) -> None:
        self.closed = True


def participant(
    cluster: FakeCluster,
    broker: RemoteBroker,
    *,
    node: str = "till",
    codec: str = "json",
    bounds: Bounds | None = None,
    consumer: FakeConsumer | None = None,
) -> Participant:
    return Participant(
        Connection(bootstrap="127.0.0.1:1"),
        namespace="ns",
        node=node,
        ledger=cluster.the_ledger,
        admin=broker.admin,
        producer=broker.started,
        consumer=cast(KafkaConsumer, consumer or FakeConsumer(broker, node)),
        codec=codec,
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
    return cluster.the_ledger.state


async def until(holds: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    """Wait for a condition."""
    await waits.until(holds, seconds, what, every_s=0.002)


def trigger(cluster: FakeCluster, name: str, ttl_ms: int = 600_000, apps: tuple[str, ...] = ()) -> int:
    """Append a trigger; its epoch."""
    record = Trigger(n=9_000 + len(cluster.the_ledger.entries), id=name, ttl_ms=ttl_ms, apps=apps)
    return cluster.the_ledger.put(record) + 1


async def captured(cluster: FakeCluster, epoch: int) -> Captured:
    """Wait until a snapshot is captured."""
    await until(lambda: not view(cluster).snapshots[epoch].open, "the end of the snapshot")
    state = view(cluster)
    assert state.snapshots[epoch].failure is None, state.snapshots[epoch].failure
    return state.captured(epoch)


async def failure_of(cluster: FakeCluster, epoch: int) -> Failure:
    """Wait until a snapshot has failed."""
    await until(lambda: not view(cluster).snapshots[epoch].open, "the failure")
    failure = view(cluster).snapshots[epoch].failure
    assert failure is not None
    return failure
