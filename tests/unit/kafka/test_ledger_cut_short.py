"""What tools say, and what a worker does, where the ledger has lost acknowledged records."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from snapkafka import ops
from snapkafka.config import Config
from snapkafka.drivers import FaustDriver, ledger_tasks
from snapkafka.errors import RestoreRefusedError, TriggerRefusedError, UnknownSnapshotError
from snapkafka.kafka import LedgerCutShortError
from snapkafka.protocol import Bye, Hello, InputTopic, LedgerRecord, Pause, Restore, TailLost
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeAdmin, FakeCluster, FakeEntry, FakeLedger, Worker

LOST = "the ledger has lost acknowledged records, at offsets 3 to 8"


@pytest.fixture
def cluster() -> FakeCluster:
    """Of a ledger that has lost its tail, and of whose services none has joined again."""
    made = FakeCluster()
    process = made.the_ledger.put(Hello(n=1, app="shop", inputs=(InputTopic(topic="orders", partitions=1),)))
    made.the_ledger.put(Bye(process=process, n=1))
    made.the_ledger.put(TailLost(n=77, since=3, upto=9))
    return made


async def test_a_trigger_that_nobody_takes_part_in_names_the_loss(cluster: FakeCluster) -> None:
    """It said that no process of any app is running."""
    with pytest.raises(TriggerRefusedError, match=f"{LOST}"):
        await ops.trigger(cluster, "ns", snapshot_id="s")


async def test_a_snapshot_that_is_not_there_any_more_is_said_to_be_lost(cluster: FakeCluster) -> None:
    for work in (
        ops.show(cluster, "ns", "gone"),
        ops.show(cluster, "ns", epoch=6),
        ops.await_captured(cluster, "ns", "gone"),
    ):
        with pytest.raises(UnknownSnapshotError) as raised:
            await cast(Any, work)
        assert raised.value.advice == f"{LOST}: take snapshots recorded there again"


async def test_list_and_doctor_name_the_loss(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    with caplog.at_level(logging.WARNING):
        assert await ops.list_snapshots(cluster, "ns") == ()
    assert f"snapkafka: {LOST}: snapshots recorded there are not listed" in caplog.messages
    found = {advice.code: advice for advice in (await ops.doctor(cluster, "ns")).found}
    assert LOST in found["ledger-cut-short"].what
    assert "find out why its broker lost them" in found["ledger-cut-short"].do


async def test_a_restore_of_which_records_may_be_lost_is_not_given_up(cluster: FakeCluster) -> None:
    """It may have appended: workers that start would take that in."""
    ledger = cluster.the_ledger
    ledger.put(Restore(n=5, plan="p", stage="begun", snapshot="s", apps=("shop",)))
    ledger.put(TailLost(n=78, since=4, upto=9))
    with pytest.raises(RestoreRefusedError):
        await ops.abort_restore(cluster, "ns", reason="no")


class CutShort(FakeLedger):
    """A ledger that loses its tail when told so, as `KafkaLedger` reports it."""

    ledger_id = 7

    def __init__(self) -> None:
        super().__init__()
        self.since: int | None = None

    async def append(self, record: LedgerRecord) -> int:
        offset = self.put(record)
        while isinstance(record, TailLost) and len(self.entries) < record.upto:
            self.put(record)
        return offset

    async def read(
        self, start: int = 0, *, until: int | None = None, gulps: Any = None
    ) -> AsyncIterator[FakeEntry]:
        async for entry in super().read(start, until=until):
            yield entry
            if self.since is not None:
                since, upto = self.since, len(self.entries)
                self.since = None
                del self.entries[since:]
                raise LedgerCutShortError(self.topic, since, upto)


async def test_r11_a_worker_joins_again_by_itself_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It tried again every second, for ever, and took no part."""
    monkeypatch.setattr(ledger_tasks, "RETRY_S", 0.01)
    driver: Any = FaustDriver(app=None, config=Config(namespace="n"))
    driver.recorder = SimpleNamespace(take=driver.append)
    ledger = CutShort()
    await driver.start(ledger, FakeAdmin())
    await driver.join(Hello(n=0, app="shop", inputs=(InputTopic(topic="in", partitions=1),)))
    process = driver.machine.process
    since = len(ledger.entries)
    for n in range(20):
        ledger.put(Pause(n=n, paused=False))
    await until(lambda: driver.machine.ledger.end == since + 20)
    ledger.since = since
    ledger.put(Pause(n=99, paused=False))
    await until(lambda: driver.machine.process not in (None, process))
    assert driver.machine.process >= since + 21
    (said,) = {
        record for record in (entry.record for entry in ledger.entries) if isinstance(record, TailLost)
    }
    assert (said.since, said.upto, said.void) == (since, since + 21, process)
    assert driver.metrics.ledger_cut_short == 1
    lines = [line for line in caplog.messages if "has lost acknowledged records" in line]
    assert len(lines) == 1
    assert "this worker joins again as a new process" in lines[0]
    await driver.stop()
