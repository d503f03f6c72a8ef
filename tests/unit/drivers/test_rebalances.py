"""Around a rebalance: what Faust takes in, on its own consumer (tests/features/test_recovery.py has all of it); what a
worker tells of its inputs before they run, as far as the broker says it in time (R9, R15)."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from faust.types import TP, Message

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers import ledger as follower
from snapkafka.drivers.faust.inbound import membership
from snapkafka.drivers.faust.inbound.resume import resume_last
from snapkafka.protocol import Abort, Assigned, Cause, Hello, InputTopic, Report, TopicPartition, Trigger
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeAdmin, FakeLedger

INPUT = TP("requests", 0)


class Worker:
    """A consumer whose flow is on, as for a recovery, with its input paused."""

    def __init__(self) -> None:
        self.app: Any = faust.App("resuming", broker="kafka://127.0.0.1:1", store="memory://")
        self.consumer = self.app.consumer
        self.app._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))
        self.recovery = self.app.tables.recovery
        self.consumer.assignment = lambda: {INPUT}
        self.consumer.pause_partitions({INPUT})
        self.app.flow_control.resume()
        self.consumer.resume_flow()

    def note(self, what: str, function: Any, *args: Any) -> Any:
        return function(*args)


@pytest.fixture
async def worker() -> Any:
    return Worker()


async def test_if_the_seek_fails_the_inputs_go_on_all_the_same(worker: Any) -> None:
    async def seek() -> None:
        raise ConnectionError

    worker.consumer.seek_to_committed = seek
    resume_last(worker, worker.consumer)
    with pytest.raises(ConnectionError):
        await worker.recovery._resume_streams(worker.app.consumer_generation_id)
    assert worker.consumer._get_active_partitions() == {INPUT}


async def test_a_fetch_that_is_under_way_takes_nothing_where_no_partition_is_active(worker: Any) -> None:
    """aiokafka takes an empty set for all. What is resumed meanwhile it may take."""
    resume_last(worker, worker.consumer)
    reported: list[Any] = []

    async def fetch(active_partitions: Any, *_: Any) -> dict[TP, Any]:
        reported.append(active_partitions)
        return {}

    worker.consumer._thread.getmany = fetch
    active: set[TP] = set()
    await worker.consumer._getmany(active_partitions=active, timeout=1.0)
    await worker.consumer._getmany(active_partitions=None, timeout=1.0)
    assert reported[0] and INPUT not in reported[0]
    active.add(INPUT)
    assert INPUT in reported[0]
    assert reported[1] is None, "a client without a group reads all"


async def test_r16_faust_does_not_wait_for_records_that_are_held_back_when_inputs_are_revoked(
    worker: Any,
) -> None:
    """It waits until all that it has taken in is acknowledged, and nothing held back ever would be."""
    driver, handed_out = FaustDriver(worker.app, Config(namespace="n")), list[Any]()

    async def hand_out(message: Any) -> None:
        handed_out.append(message)

    driver.consumer_made(worker.consumer)
    driver.conductor_made(worker.app.topics)
    assert driver.incoming is not None
    worker.app.topics._tp_to_callback[INPUT] = hand_out
    driver.incoming.held.hold(INPUT, _record(worker, 0))
    await worker.app.topics._tp_to_callback[INPUT](_record(worker, 1))
    assert len(worker.consumer.unacked) == 2 and not handed_out
    worker.consumer.commit = lambda: asyncio.sleep(0)
    worker.consumer.commit_and_end_transactions = lambda: asyncio.sleep(0)
    worker.consumer.stop_flow()
    assert not worker.consumer.unacked
    await worker.consumer.wait_empty()
    assert worker.app.topics._tp_to_callback[INPUT] == hand_out


def _record(worker: Worker, offset: int) -> Message:
    message = Message("requests", 0, offset, 0.0, 0, None, b"k", b"v", None)
    worker.consumer.track_message(message)
    return message


IN = TP("in", 0)
PATIENCE_S = 0.2


class Ledger(FakeLedger):
    ledger_id = 7

    def said(self, kind: type) -> list[Any]:
        return [entry.record for entry in self.entries if isinstance(entry.record, kind)]


@pytest.mark.parametrize("reported", [True, False])
async def test_r15_faust_waits_for_positions_no_longer_than_for_the_ledger(
    monkeypatch: pytest.MonkeyPatch, reported: bool
) -> None:
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

    app: Any = faust.App("shop", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
    driver: Any = FaustDriver(app, Config(namespace="n"))
    driver.recorder = SimpleNamespace(take=driver.write)
    client = SimpleNamespace(committed=committed, position=position)
    app.consumer._thread = SimpleNamespace(
        _ensure_consumer=lambda: client, thread_loop=asyncio.get_running_loop()
    )
    app.consumer.assignment = lambda: {IN}
    driver.consumer_made(app.consumer)
    ledger = Ledger()
    await driver.start(ledger, FakeAdmin(ends={TopicPartition("in", 0): 0}))
    await driver.join_ledger(Hello(n=0, app="shop", inputs=(InputTopic(topic="in", partitions=1),)))

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
    await until(lambda: [abort.code for abort in ledger.said(Abort)] == ["contaminated"])
    assert not ledger.said(Assigned)

    commits[IN] = 4  # Faust has committed since
    there.set()
    await until(lambda: not driver.machine.absent)
    epoch = ledger.put(Trigger(n=91, id="when it is known")) + 1
    await until(lambda: any(report.epoch == epoch for report in ledger.said(Report)))
    assert [it.offset for it in ledger.said(Report)[-1].positions] == [5]
    assert len(ledger.said(Assigned)) == 1, "of the latest assignment alone"
    await driver.stop()
