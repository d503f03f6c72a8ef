"""What is written to a ledger that is recreated, loses its tail, or gets late what a worker says (R9, R11, R15)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import faust
import pytest
from faust.types.tuples import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers import ledger as follower
from snapkafka.drivers.faust.inbound import membership
from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import LedgerCutShortError, LedgerRecreatedError
from snapkafka.ports import Entry
from snapkafka.protocol import Cause, Hello, InputTopic, Report, TopicPartition
from snapkafka.protocol.ledger_state import take_checkpoint
from snapkafka.protocol.records import Abort, Assigned, Bye, LedgerRecord, TailLost, Trigger
from snapkafka.wire import headers as wire
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeAdmin, FakeLedger


class Remade(FakeLedger):
    """A ledger whose reader fails when told so, and may be held up, as may who opens it or writes to it."""

    ledger_id = 7

    def __init__(self) -> None:
        super().__init__()
        self.fault: Exception | None = None
        self.may_open, self.may_write, self.may_read = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for may in (self.may_open, self.may_write, self.may_read):
            may.set()

    def delete(self) -> None:
        """Delete it; the next one is empty."""
        self.entries.clear()
        self.fault = LedgerRecreatedError(self.topic)

    async def open(self, *, create: bool = True) -> None:
        await self.may_open.wait()

    async def append(self, record: LedgerRecord) -> int:
        await self.may_write.wait()
        return self.put(record)

    async def read(
        self, start: int = 0, *, until: int | None = None, rest: Any = None
    ) -> AsyncIterator[Entry]:
        while until is None or start < until:
            await self.may_read.wait()
            if self.fault is not None:
                fault, self.fault = self.fault, None
                raise fault
            async for entry in super().read(start, until=len(self.entries)):
                yield entry
                start = entry.offset + 1
            await asyncio.sleep(0.001)

    def written(self, kind: type = object) -> list[Any]:
        return [entry.record for entry in self.entries if isinstance(entry.record, kind)]

    async def trim_to_checkpoint(self) -> None:
        """As `ops.checkpoint` does."""
        upto = len(self.entries)
        old = [(entry.offset, entry.record) async for entry in super().read(until=upto)]
        for chunk in take_checkpoint(old, first_n=10**9 + upto):
            self.put(chunk)
        await self.trim(upto)


async def joined(app: Any = None, ledger: Remade | None = None) -> tuple[Any, Remade]:
    """A worker that has not been given its input yet, so that no snapshot is captured, and its ledger."""
    driver: Any = FaustDriver(app=app or Mock(), config=Config(namespace="n"))
    driver.recorder = SimpleNamespace(take=driver.write)
    ledger = ledger or Remade()
    driver.connected(ledger, FakeAdmin(ends={TopicPartition("in", 0): 0}))
    await driver.join_ledger(Hello(n=0, app="shop", inputs=(InputTopic(topic="in", partitions=1),)))
    return driver, ledger


def shop() -> Any:
    return faust.App("shop", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)


async def make_anew(driver: Any, ledger: Remade) -> None:
    """The ledger is deleted, and the worker has joined the next one."""
    ledger.delete()
    await until(lambda: driver.ledgers == 1 and driver.machine.process is not None)


async def test_a_new_ledger_gets_nothing_before_it_is_open_nor_what_was_meant_for_the_old_one() -> None:
    """In the new ledger an old process id is somebody else's. And what is written to a topic before `open` has looked
    at it, which the broker may have made with settings that are for no one, is in the way of setting these right."""
    driver, ledger = await joined()
    assert driver.machine.process == 0

    ledger.may_open.clear()
    ledger.may_write.clear()
    driver.append(Bye(process=0, n=1))  # is being written when the ledger vanishes
    driver.append(Bye(process=0, n=2))
    ledger.delete()
    await until(lambda: driver.machine.process is None)
    ledger.may_write.set()
    await until(lambda: bool(ledger.entries))
    await asyncio.sleep(0.05)
    assert ledger.written() == [Bye(process=0, n=1)], "what nobody can call back, and no more"

    ledger.may_open.set()
    await until(lambda: driver.machine.process is not None)
    assert [type(record) for record in ledger.written()] == [Bye, Hello]
    await driver.stop()


async def test_r12_the_timer_of_a_snapshot_runs_out_in_its_own_ledger_only() -> None:
    """The first snapshot of the new ledger has the epoch of the last one of the old ledger, and all of its own time."""
    (driver, ledger), old_ttl_ms = await joined(), 300
    old = ledger.put(Trigger(n=1, id="in the old one", ttl_ms=old_ttl_ms))
    await until(lambda: driver.machine.ledger.end > old)
    await make_anew(driver, ledger)
    new = ledger.put(Trigger(n=2, id="in the new one", ttl_ms=60_000))
    assert new == old, "or nothing is shown"
    await asyncio.sleep(1.5 * old_ttl_ms / 1000)
    assert not ledger.written(Abort)
    await driver.stop()


async def test_r6_an_epoch_of_the_old_ledger_tears_nothing_in_the_new_one() -> None:
    """A record of a global table was met before, and is taken in after. The simulator found it."""
    app = shop()
    rates = app.GlobalTable("rates")
    driver, ledger = await joined(app)
    driver.tables.attach()
    driver.machine.colours.tearing = True
    message = SimpleNamespace(tp=TP("rates", 0), offset=3)
    driver.tables.met(message.tp, message.offset, wire.Stamp(9, 0, 0))
    ledger.ledger_id += 1
    await make_anew(driver, ledger)
    driver.machine.torn = None  # to call it would be a fault of ours
    await rates.on_changelog_event(SimpleNamespace(message=message, key="k", value=1))
    assert not driver.absent
    await driver.stop()


async def test_a_worker_joins_at_a_checkpoint_and_again_behind_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It reads from there on; one that was behind, and finds its place gone, is a new process. It says when it tries
    again, and when it has joined."""
    monkeypatch.setattr("snapkafka.drivers.ledger.RETRY_S", 0.01)
    ledger = Remade()
    for n in range(20):
        ledger.put(Hello(n=n, app="tills", host="box", pid=n))
    await ledger.trim_to_checkpoint()
    ledger.fault = BrokerUnavailableError("away")
    driver, _ = await joined(ledger=ledger)
    process = driver.machine.process
    assert (process, len(list(driver.machine.ledger.living()))) == (21, 21)
    assert ["again" in it for it in caplog.messages if "away" in it or "process 21" in it] == [True, False]

    ledger.may_read.clear()
    ledger.put(Hello(n=100, app="tills", host="box", pid=100))
    await ledger.trim_to_checkpoint()
    ledger.may_read.set()
    await until(lambda: driver.machine.process not in (None, process))
    assert len(list(driver.machine.ledger.living())) == 23, "the old life is there until it is taken for dead"
    await driver.stop()


async def test_r11_a_worker_whose_ledger_has_lost_its_tail_says_so_there_and_runs_without_snapshots() -> None:
    driver, ledger = await joined()
    ledger.may_write.clear()
    driver.append(Bye(process=0, n=1))  # is being written
    driver.append(Bye(process=0, n=2))  # its number may be that of a lost one
    await asyncio.sleep(0)
    ledger.fault = LedgerCutShortError(ledger.topic, since=1)
    await until(lambda: bool(driver.absent))
    ledger.may_write.set()
    await until(lambda: len(ledger.entries) == 4)
    _, written, lost, gone = ledger.written()
    assert written == Bye(process=0, n=1)
    assert isinstance(lost, TailLost) and lost.since == 1
    assert isinstance(gone, Bye) and gone.goes_on and "lost acknowledged records" in gone.reason
    await driver.stop()


IN, PATIENCE_S = TP("in", 0), 0.2


@pytest.mark.parametrize("reported", [True, False])
async def test_r15_positions_are_awaited_for_a_while(monkeypatch: pytest.MonkeyPatch, reported: bool) -> None:
    """The broker does not tell what is committed, or nothing is and the consumer does not tell where it started. The
    inputs go on, snapshots fail by name, and when it tells, the worker is back, with what has run meanwhile as done."""
    monkeypatch.setattr(follower, "LEDGER_WAIT_S", PATIENCE_S)
    monkeypatch.setattr(membership, "RETRY_S", 0.01)
    commits: dict[Any, int] = {IN: 3} if reported else {}
    there = asyncio.Event()

    async def committed(tp: Any) -> int | None:
        if reported:
            await there.wait()
        return commits.get(TP(*tp))

    async def position(tp: Any) -> int:
        raise ConnectionError("no coordinator")

    app = shop()
    client = SimpleNamespace(committed=committed, position=position)
    app.consumer._thread = SimpleNamespace(
        _ensure_consumer=lambda: client, _consumer=client, thread_loop=asyncio.get_running_loop()
    )
    app.consumer.assignment = lambda: {IN}
    driver, ledger = await joined(app)
    driver.attach()
    driver.recorder = SimpleNamespace(take=driver.write)

    waits = asyncio.ensure_future(app.on_rebalance_complete.send())
    await asyncio.sleep(0)
    app.consumer_generation_id += 1
    await waits
    assert not driver.machine.absent, "other inputs will come: that was no wait in vain"
    started = time.monotonic()
    await app.on_rebalance_complete.send()
    assert PATIENCE_S <= time.monotonic() - started < 4 * PATIENCE_S
    for offset in (3, 4):
        event = Cause("stream", TopicPartition("in", 0), offset, 0)  # that of no agent
        driver.machine.event_started(event)
        driver.machine.event_ended(event)
    ledger.put(Trigger(n=90, id="while nobody knows"))
    await until(lambda: [abort.code for abort in ledger.written(Abort)] == ["contaminated"])
    assert not ledger.written(Assigned)

    commits[IN] = 4  # Faust has committed since
    there.set()
    await until(lambda: not driver.machine.absent)
    epoch = ledger.put(Trigger(n=91, id="when it is known")) + 1
    await until(lambda: any(report.epoch == epoch for report in ledger.written(Report)))
    assert [it.offset for it in ledger.written(Report)[-1].positions] == [5]
    assert len(ledger.written(Assigned)) == 1, "of the latest assignment alone"
    await driver.stop()
