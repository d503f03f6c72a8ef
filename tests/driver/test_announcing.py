"""R9, R15: what a worker was given is told before the inputs run, as far as the broker says it in time. No Faust, no
broker: a consumer whose broker may be away, and a ledger in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faust.types import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver, waiting
from snapkafka.drivers.faust import hooks
from snapkafka.drivers.faust.inbound import assignment
from snapkafka.protocol import (
    Abort,
    Assigned,
    Cause,
    Closed,
    CutReport,
    Hello,
    InputTopic,
    Position,
    TopicPartition,
    Trigger,
)
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeAdmin, FakeLedger

IN = TP("in", 0)
PATIENCE_S = 0.2
#: Faust waited so long: more than there is patience for, on a machine that is busy.
LONG_S = 4 * PATIENCE_S


class Client:
    """aiokafka's consumer. It settles where to start with an input when the broker is there, as `settle` says."""

    def __init__(self) -> None:
        self.there = asyncio.Event()
        self.there.set()
        self.commits: dict[Any, int] = {}
        self.end = 0
        self.failures = 0
        self.answers = True
        self._start: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def settle(self, start: int) -> None:
        self._start.set_result(start)

    async def committed(self, tp: Any) -> int | None:
        await self.there.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the coordinator is away")
        return self.commits.get(tuple(tp))

    async def position(self, tp: Any) -> int:
        if not self.answers:
            raise ConnectionError("no coordinator")
        return await asyncio.shield(self._start)

    async def end_offsets(self, tps: Iterable[Any]) -> dict[Any, int]:
        await self.there.wait()
        return dict.fromkeys(tps, self.end)


class Thread:
    """Of the consumer; here it is the same one."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.thread_loop = asyncio.get_running_loop()

    def _ensure_consumer(self) -> Client:
        return self.client


class Consumer:
    """Faust's, as far as it is sewn to."""

    def __init__(self, app: Any) -> None:
        self.app, self.client = app, Client()
        self._thread = Thread(self.client)
        self.resume_partitions = self.resume_flow = self.stop_flow = self.ack = lambda *args: True
        self.perform_seek = self._getmany = self.subscribe = self.highwaters = None

    def assignment(self) -> set[Any]:
        return {IN}


class Signal:
    """One of Faust's, with one receiver."""

    def connect(self, receiver: Callable[..., Awaitable[None]], **_: Any) -> None:
        self.send = receiver


class Service:
    """A worker that has joined; `given` is the end of a rebalance as Faust lives it, `revoked` the begin of one."""

    def __init__(self, reset: str = "earliest") -> None:
        recovery = SimpleNamespace(active_highwaters={}, tp_to_table={}, active_tps=set())
        self.app = SimpleNamespace(
            conf=SimpleNamespace(
                consumer_auto_offset_reset=reset,
                reply_to="replies",
                processing_guarantee="at_least_once",
            ),
            tables=SimpleNamespace(changelog_topics=set(), recovery=recovery),
            _leader_assignor=SimpleNamespace(_leader_topic_name="leader"),
            consumer_generation_id=1,
            on_rebalance_complete=Signal(),
        )
        self.driver = cast(Any, FaustDriver(app=self.app, config=Config(namespace="n")))
        self.driver.recorder = SimpleNamespace(take=self.driver.write)
        self.driver.outgoing = SimpleNamespace(
            attached=SimpleNamespace(on_assigned=lambda inputs: None, on_revoked=lambda: None),
            transactions=None,
        )
        self.driver.events = SimpleNamespace(readers=lambda tp: ("agent",), on_revoked=lambda: None)
        self.ledger = Ledger()
        self.consumer = Consumer(self.app)
        self.driver.consumer_made(self.consumer)
        self.revoked = hooks._on_revoked(self.driver)

    @property
    def client(self) -> Client:
        return self.consumer.client

    async def join(self) -> None:
        await self.driver.start(self.ledger, FakeAdmin(ends={TopicPartition("in", 0): 0}))
        await self.driver.join_ledger(Hello(n=0, app="shop", inputs=(InputTopic(topic="in", partitions=1),)))

    async def given(self) -> float:
        """For so long Faust had to wait."""
        started = time.monotonic()
        await asyncio.wait_for(self.app.on_rebalance_complete.send(), timeout=20 * PATIENCE_S)
        return time.monotonic() - started

    async def rebalance(self) -> float:
        await self.revoked()
        self.app.consumer_generation_id += 1
        return await self.given()

    def runs(self, *offsets: int) -> None:
        for offset in offsets:
            event = Cause("agent", TopicPartition("in", 0), offset, 0)
            self.driver.machine.event_started(event)
            self.driver.machine.event_ended(event)

    def said(self, kind: type) -> list[Any]:
        return [entry.record for entry in self.ledger.entries if isinstance(entry.record, kind)]

    async def back(self) -> None:
        await until(lambda: not self.driver.machine.absent)

    async def cut(self, name: str) -> tuple[Position, ...]:
        """Where the worker stands, as a snapshot has it."""
        epoch = self.ledger.put(Trigger(n=len(self.ledger.entries), id=name)) + 1
        await until(lambda: epoch in {report.epoch for report in self.reports()})
        (report,) = (report for report in self.reports() if report.epoch == epoch)
        positions: tuple[Position, ...] = report.positions
        return positions

    def reports(self) -> list[CutReport]:
        """Its reports, also those in one record with their `Closed`."""
        return [*self.said(CutReport), *(cut for closed in self.said(Closed) for cut in closed.cut)]

    async def fails(self, name: str) -> str:
        epoch = self.ledger.put(Trigger(n=len(self.ledger.entries), id=name)) + 1
        await until(lambda: epoch in {abort.epoch for abort in self.said(Abort)})
        assert epoch not in {report.epoch for report in self.reports()}
        return next(str(abort.code) for abort in self.said(Abort) if abort.epoch == epoch)


class Ledger(FakeLedger):
    ledger_id = 7


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LEDGER_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(assignment, "RETRY_S", 0.01)


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    made = Service()
    await made.join()
    yield made
    made.client.there.set()
    await made.driver.stop()


def places(positions: Iterable[Position]) -> list[tuple[int, int]]:
    return [(position.offset, position.replay_until) for position in positions]


async def test_r15_faust_waits_for_positions_no_longer_than_for_the_ledger(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker does not tell what is committed. The inputs go on, snapshots fail by name, and when it tells, the
    worker is back, with what has run meanwhile as done."""
    service.client.commits[IN] = 3
    service.client.there.clear()
    assert await service.given() < LONG_S
    assert "the broker, asked where the inputs start, did not answer" in caplog.text
    service.runs(3, 4)
    assert await service.fails("while nobody knows") == "contaminated"
    assert not service.said(Assigned)

    service.client.commits[IN] = 4  # Faust has committed since
    service.client.there.set()
    await service.back()
    assert places(await service.cut("when it is known")) == [(5, 0)]
    assert [given.inputs for given in service.said(Assigned)] == [(TopicPartition("in", 0),)]


async def test_r15_it_does_not_wait_again_and_again_for_a_broker_that_reports_nothing(
    service: Service,
) -> None:
    """Once per outage, as for the ledger."""
    service.client.there.clear()
    waited = [await service.rebalance() for _ in range(3)]
    assert waited[0] >= PATIENCE_S
    assert max(waited[1:]) < PATIENCE_S / 2
    service.client.settle(0)
    service.client.there.set()
    await service.back()
    assert len(service.said(Assigned)) == 1, "of the latest assignment, and no other"


async def test_r15_what_fails_is_asked_again(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.client.commits[IN] = 3
    service.client.failures = 3
    assert await service.given() < LONG_S
    assert places(await service.cut("in time")) == [(3, 0)]
    assert caplog.text.count("failed to announce its inputs") == 1


async def test_r15_where_the_consumer_does_not_report_only_a_commit_does(service: Service) -> None:
    """By what the broker says now it cannot be known where the consumer started a while ago."""
    service.client.answers = False
    service.client.end = 20
    assert await service.given() < LONG_S
    service.runs(12)
    assert await service.fails("nothing is committed") == "contaminated"
    service.client.commits[IN] = 13
    await service.back()
    assert places(await service.cut("something is")) == [(13, 0)]


async def test_r9_what_is_taken_away_again_is_not_announced(service: Service) -> None:
    """The next rebalance begins while the broker is asked. Until Faust has been given others it takes what it had for
    its own, and would let it run, so it is kept so long; and this was no wait in vain."""
    service.client.there.clear()
    waits = asyncio.ensure_future(service.given())
    await asyncio.sleep(PATIENCE_S / 4)
    await service.revoked()
    await asyncio.sleep(PATIENCE_S / 4)
    assert not waits.done()
    service.app.consumer_generation_id += 1
    assert await waits < LONG_S
    assert not service.driver.machine.absent
    service.client.commits[IN] = 5
    service.client.there.set()
    await service.rebalance()
    assert [given.generation for given in service.said(Assigned)] == [3]
    assert places(await service.cut("s")) == [(5, 0)]


async def test_r15_a_rebalance_that_does_not_come_to_its_end_is_not_waited_for(service: Service) -> None:
    """They were taken away, and nothing is given: the worker is absent, or it would vouch for what runs now."""
    service.client.there.clear()
    waits = asyncio.ensure_future(service.given())
    await asyncio.sleep(PATIENCE_S / 4)
    await service.revoked()
    assert PATIENCE_S / 2 < await waits < LONG_S
    assert service.driver.machine.absent
    service.client.commits[IN] = 5
    service.client.there.set()
    await service.rebalance()
    await service.back()
    assert places(await service.cut("s")) == [(5, 0)]
