"""The way out of a Faust app, with a producer that only remembers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from types import SimpleNamespace
from typing import Any

from snapkafka.drivers import AppliedRestores, Metrics
from snapkafka.drivers.faust.outbound.producer import OutgoingRecords
from snapkafka.drivers.stamps import Stamps
from snapkafka.drivers.waiting import LedgerWaits
from snapkafka.protocol import (
    Action,
    AppendToLedger,
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


class Producer:
    """Faust's producer, as far as `OutgoingRecords` knows it. `hold` keeps appends waiting, as a full batch does."""

    def __init__(self) -> None:
        self.log: list[wire.Stamp] = []
        self.buffer = SimpleNamespace(put=lambda fut: None)
        self.hold = asyncio.Event()
        self.hold.set()

    async def send(
        self, topic: str, key: Any, value: Any, partition: int, timestamp: Any, headers: Any, **more: Any
    ) -> asyncio.Future[Any]:
        await self.hold.wait()
        stamp = wire.read(wire.find(headers) or b"", 7, wire.tp_check(topic, partition))
        assert stamp is not None
        self.log.append(stamp)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(SimpleNamespace(offset=len(self.log) - 1))
        return done


class Driver:
    """The host of `OutgoingRecords` and the parts that it uses, with a ledger that is a list."""

    def __init__(self, producer: Any = None) -> None:
        self.machine = WorkerProtocol()
        self.absent = ""
        self.metrics = Metrics()
        self.stamps = Stamps(self.machine, with_cause=True)
        self.stamps.ledger_id = 7
        self.events = SimpleNamespace(cause_of_send=lambda: None)
        self.follower: Any = LedgerWaits(self)  # type: ignore[arg-type]
        self.restored = AppliedRestores(self)  # type: ignore[arg-type]
        self.app = SimpleNamespace(
            conf=SimpleNamespace(processing_guarantee="at_least_once", id="p"),
        )
        self.ledger: list[LedgerRecord] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.producer = producer or Producer()
        self.outgoing = OutgoingRecords(
            self,  # type: ignore[arg-type]
            self.producer,
            stamps=self.stamps,
            events=self.events,  # type: ignore[arg-type]
            waiting=self.follower,
            note=self.restored.noted,
        )
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
                self.outgoing.markers.due(action)
            elif isinstance(action, AppendToLedger):
                self.append(action.record)
        for epoch in list(self.machine.open.cuts):
            cut = self.machine.open.cuts[epoch]
            if cut.cut_us is None:
                self.feed(CutTimed(epoch=epoch, us=1))

    def failing_open(self, what: str, *, for_good: bool = False) -> contextlib.AbstractContextManager[None]:
        """What fails here fails the test."""
        return contextlib.nullcontext()

    def about(self) -> dict[str, Any]:
        return {}

    def runs_here(self) -> bool:
        return True

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        return task

    def trigger(self, name: str) -> int:
        epoch = len(self.ledger) + 1
        self.append(Trigger(n=epoch + 100, id=name, marker_topics=("t",)))
        return epoch

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks)
        for _ in range(5):
            await asyncio.sleep(0)

    def closed(self) -> list[int]:
        return [record.epoch for record in self.ledger if isinstance(record, Closed)]


async def send(driver: Driver, partition: int = 0) -> None:
    await driver.outgoing.send("t", b"k", b"v", partition, None, None)
