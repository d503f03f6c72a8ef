"""Real producers of aiokafka with a broker in memory, and a process that has joined and stamps what they send."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import faust
from aiokafka import AIOKafkaProducer
from aiokafka.errors import RequestTimedOutError
from aiokafka.producer.transaction_manager import TransactionResult
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import PartitionMetadata, TopicPartition

from snapkafka.drivers import AppliedRestores, Metrics
from snapkafka.drivers.aio_client import AioClient, send_markers
from snapkafka.drivers.faust.outbound.producer import OutgoingRecords
from snapkafka.drivers.sends import Sends
from snapkafka.drivers.stamps import Stamps
from snapkafka.drivers.waiting import LedgerWaits
from snapkafka.protocol import (
    Action,
    AppendToLedger,
    Cause,
    Closed,
    CutTimed,
    Event,
    Hello,
    Joined,
    LedgerRead,
    LedgerRecord,
    ReadLedgerTo,
    SendMarkers,
    Trigger,
    WorkerProtocol,
)
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

    def stamp(self, tp: TopicPartition) -> wire.Stamp | None:
        return wire.read(wire.find(list(self.record.headers)) or b"", LEDGER, wire.tp_check(*tp))


class Broker:
    """A topic `t`.

    Args:
        bytes_max: larger batches are refused.
        trouble: so often a request is answered by an error after which aiokafka tries again.
        seed: of these.
    """

    def __init__(self, *, bytes_max: int = 10**9, trouble: float = 0.0, seed: int = 0) -> None:
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
        client.cluster._partitions["t"] = {
            partition: PartitionMetadata("t", partition, 0, (0,), (0,), 0) for partition in range(PARTITIONS)
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


async def _nothing() -> None:
    pass


async def _coordinator(*_: Any) -> int:
    return 0


class Driver:
    """The host of what stamps, with a ledger that is a list; it has joined."""

    def __init__(self) -> None:
        self.machine = WorkerProtocol()
        self.absent, self.started, self.loop = "", False, None
        self.metrics = Metrics()
        self.stamps = Stamps(self.machine, with_cause=True)
        self.stamps.ledger_id = LEDGER
        self.cause: Cause | None = None
        self.app = SimpleNamespace(conf=SimpleNamespace(processing_guarantee="at_least_once", id="p"))
        self.ledger: list[LedgerRecord] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.due: dict[
            tuple[Any, int], int
        ] = {}  # partition and epoch of a marker -> the seq it is due before
        self.events = SimpleNamespace(cause_of_send=lambda: None)
        self.follower: Any = LedgerWaits(self)  # type: ignore[arg-type]
        self.restored = AppliedRestores(self)  # type: ignore[arg-type]
        self.sends = Sends(
            self,  # type: ignore[arg-type]
            lambda: self.cause,
        )
        self.client: AioClient | None = None
        hello = Hello(n=1, app="p")
        self.feed(Joined(hello=hello))
        self.append(hello)

    def append(self, record: LedgerRecord) -> None:
        self.ledger.append(record)
        self.feed(LedgerRead(offset=len(self.ledger) - 1, record=record))

    def feed(self, event: Event) -> ReadLedgerTo | None:
        actions = self.machine.handle(event)
        self.do(actions)
        return next((action for action in actions if isinstance(action, ReadLedgerTo)), None)

    def answering(self) -> Callable[[Event], object]:
        return self.feed

    def do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, SendMarkers):
                for tp in action.tps:
                    self.due[tp, action.epoch] = self.machine.colours.sent[tp].next_seq
                send_markers(self.sends, lambda: self.client, action)
            elif isinstance(action, AppendToLedger):
                self.append(action.record)
        for epoch in list(self.machine.open.cuts):
            if self.machine.open.cuts[epoch].cut_us is None:
                self.feed(CutTimed(epoch=epoch, us=1))

    def failing_open(self, what: str, *, for_good: bool = False) -> contextlib.AbstractContextManager[None]:
        """What fails here fails the test."""
        return contextlib.nullcontext()

    def stand_down(self, what: str, error: Exception) -> None:
        raise AssertionError(what) from error

    def about(self) -> dict[str, Any]:
        return {}

    def runs_here(self) -> bool:
        return True

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def trigger(self, name: str = "now") -> int:
        epoch = len(self.ledger) + 1
        self.append(Trigger(n=epoch + 100, id=name, marker_topics=("t",)))
        return epoch

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)
        for _ in range(8):
            await asyncio.sleep(0)

    def closed(self) -> list[int]:
        return [record.epoch for record in self.ledger if isinstance(record, Closed)]


class Faust:
    """An app whose producer has started, as far as it can tell; `driver`: it stamps."""

    def __init__(self, broker: Broker, driver: Driver | None, **settings: Any) -> None:
        self.broker = broker
        self.app: Any = faust.App(
            "a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False, **settings
        )
        self.app.finalize()
        self.producer = self.app.producer
        self.buffer = self.producer.buffer
        self.producer._started.set()
        self.outgoing: Any = None
        if driver is not None:
            driver.app = self.app
            self.outgoing = OutgoingRecords(
                driver,  # type: ignore[arg-type]
                self.producer,
                sends=driver.sends,
                note=lambda offsets: offsets,
            )
        self.client = self.connect()
        if driver is not None:
            driver.client = self.outgoing.client()
        self.topic = self.app.topic("t", value_serializer="raw", key_serializer="raw")

    def connect(self) -> Any:
        """Make aiokafka's producer, as Faust does at its start."""
        self.producer._producer = self.broker.connect(self.producer._new_producer())
        return self.producer._producer

    def soon(self, value: bytes = b"v", partition: int | None = 0, **more: Any) -> Any:
        return self.topic.send_soon(key=b"k", value=value, partition=partition, **more)

    async def send(self, value: bytes | None = b"v", partition: int | None = 0, **more: Any) -> Any:
        given = {"key": b"k", "timestamp": None, "headers": None, **more}
        return await self.producer.send("t", value=value, partition=partition, **given)

    async def emptying(self) -> None:
        """As Faust's task does it, until nothing waits there."""
        while self.buffer.pending.qsize():
            await self.buffer._send_pending(self.buffer.pending.get_nowait())
