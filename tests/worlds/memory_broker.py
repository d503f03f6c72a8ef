"""A broker in memory, for real producers of aiokafka."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import RequestTimedOutError
from aiokafka.producer.transaction_manager import TransactionResult
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import PartitionMetadata, TopicPartition

from snapkafka.wire import headers as wire

LEDGER: Final = 7
PARTITIONS: Final = 3
THERE: Final = TopicPartition("t", 0)
TOO_LARGE, NOT_LEADER = 10, 6


@dataclass(slots=True)
class Stored:
    """A record in the log; None: the end of a transaction. `of`: the producer whose transaction it is in."""

    record: Any
    of: int = -1
    aborted: bool = False

    def stamp(self, tp: TopicPartition, ledger: int = LEDGER) -> wire.Stamp | None:
        return wire.read(wire.find(list(self.record.headers)) or b"", ledger, wire.tp_check(*tp))


class Broker:
    """A few topics, by their numbers of partitions.

    Args:
        bytes_max: larger batches are refused.
        trouble: so often a request is answered by an error after which aiokafka tries again.
        seed: of these.
    """

    def __init__(self, *, bytes_max: int = 10**9, trouble: float = 0.0, seed: int = 0) -> None:
        self.topics: Mapping[str, int] = {"t": PARTITIONS}
        self.bytes_max, self.trouble, self.random = bytes_max, trouble, Random(seed)
        self.log: dict[TopicPartition, list[Stored]] = defaultdict(list)
        self.answers = asyncio.Event()  # requests wait for it
        self.answers.set()
        self.clients: list[Any] = []
        self._seen: dict[tuple[TopicPartition, int, int], int] = {}  # of a producer's batch, its offset

    def connect(self, producer: Any) -> Any:
        """Let a producer send here, and nobody be told that it was never started."""
        number, client, manager = len(self.clients), producer.client, producer._txn_manager
        self.clients.append(producer)
        for topic, count in self.topics.items():
            client.cluster._partitions[topic] = {
                partition: PartitionMetadata(topic, partition, 0, (0,), (0,), 0) for partition in range(count)
            }
        client.cluster.leader_for_partition = lambda tp: 0
        client.send = partial(self._answer, number, producer)
        client._maybe_wait_metadata = _nothing
        client.force_metadata_update = lambda: asyncio.ensure_future(_nothing())
        sender = producer._sender
        sender._retry_backoff, sender._find_coordinator = 0, _coordinator
        if manager is not None:
            manager.set_pid_and_epoch(number, 0)
        sender._sender_task = asyncio.ensure_future(sender._sender_routine())
        return producer

    def producer(self, **settings: Any) -> Any:
        return self.connect(AIOKafkaProducer(bootstrap_servers="127.0.0.1:1", **settings))

    async def close(self) -> None:
        for producer in self.clients:
            producer._sender._sender_task.cancel()
            producer._closed = True
        await asyncio.gather(*(it._sender._sender_task for it in self.clients), return_exceptions=True)

    async def _answer(self, number: int, producer: Any, node: int, request: Any, **_: Any) -> Any:
        await asyncio.sleep(0)
        await self.answers.wait()
        manager = producer._txn_manager
        if isinstance(request, AddPartitionsToTxnRequest):
            added = [(tp.topic, [(tp.partition, 0)]) for tp in list(manager.partitions_to_add())]
            return SimpleNamespace(errors=added)
        if isinstance(request, EndTxnRequest):
            self._end(number, committed=manager.needs_transaction_commit() is TransactionResult.COMMIT)
            return SimpleNamespace(error_code=0)
        assert isinstance(request, ProduceRequest)
        lost = (
            manager is not None and self.random.random() < self.trouble
        )  # it is answered, and nobody hears it
        topics = [
            (topic, [self._append(number, TopicPartition(topic, n), bytes(data)) for n, data in partitions])
            for topic, partitions in request._topics
        ]
        if lost:
            raise RequestTimedOutError
        return SimpleNamespace(topics=topics, API_VERSION=7)

    def _append(self, number: int, tp: TopicPartition, data: bytes) -> tuple[int, int, int, int, int]:
        if len(data) > self.bytes_max:
            return tp.partition, TOO_LARGE, -1, -1, 0
        if self.random.random() < self.trouble:
            return tp.partition, NOT_LEADER, -1, -1, 0
        batch = MemoryRecords(data).next_batch()
        again = (tp, batch.producer_id, batch.base_sequence)
        if batch.producer_id >= 0 and again in self._seen:
            return tp.partition, 0, self._seen[again], -1, 0
        base = self._seen[again] = len(self.log[tp])
        of = number if batch.is_transactional else -1
        self.log[tp] += [Stored(record, of) for record in batch]
        return tp.partition, 0, base, -1, 0

    def _end(self, number: int, *, committed: bool) -> None:
        for stored in self.log.values():
            ended = [it for it in stored if it.of == number]
            for it in ended:
                it.of, it.aborted = -1, not committed
            if ended:
                stored.append(Stored(None))

    # -- what is there ------------------------------------------------------------------------------------------------

    def records(self, tp: TopicPartition = THERE) -> list[Any]:
        """Those of the app, in the order of the log."""
        return [it.record for it in self.log[tp] if it.record is not None and not self.marks(it)]

    def marks(self, stored: Stored) -> bool:
        return wire.is_marker_key(stored.record.key)

    def values(self, tp: TopicPartition = THERE) -> list[bytes]:
        return [record.value for record in self.records(tp)]

    def stamps(self, tp: TopicPartition = THERE) -> list[wire.Stamp | None]:
        return [it.stamp(tp) for it in self.log[tp] if it.record is not None]

    def seqs(self) -> list[int | None]:
        return [None if stamp is None else stamp.seq for stamp in self.stamps()]


async def _nothing() -> None:
    pass


async def _coordinator(*_: Any) -> int:
    return 0
