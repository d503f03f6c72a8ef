"""R9, R15: what a worker was given is told before the inputs run, as far as the broker says it in time."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from faust.types import TP

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers import ledger as follower
from snapkafka.drivers.faust.inbound import membership
from snapkafka.protocol import Abort, Assigned, Cause, Hello, InputTopic, Report, TopicPartition, Trigger
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeAdmin, FakeLedger

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
