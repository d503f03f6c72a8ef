"""The end of a rebalance on Faust's own recovery and consumer: nothing is handed out before the inputs are sought, nor
thrown away behind that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import faust
import pytest
from faust.types import TP, ConsumerMessage, Message

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers.faust.inbound.resume import resume_last

INPUT, CHANGELOG = TP("requests", 0), TP("resuming-counts-changelog", 0)


class Worker:
    """A consumer whose flow is on, as for a recovery, and which has records of the input from offset 12 on, though
    its position is to be 10."""

    def __init__(self) -> None:
        self.app: Any = faust.App("resuming", broker="kafka://127.0.0.1:1", store="memory://")
        self.app.Table("counts")
        self.consumer = self.app.consumer
        self.handed_out: list[int] = []
        self.queue: Any = self.app.FlowControlQueue(maxsize=100, clear_on_resume=True)
        self.position = 12
        self.sought = asyncio.Event()
        self.fails = False
        self.consumer.callback, self.consumer.getmany = self.hand_out, self.one_record
        self.consumer.seek_to_committed = self.seek_to_committed
        self.consumer.assignment = lambda: {INPUT, CHANGELOG}
        self.app._fetcher = SimpleNamespace(maybe_start=lambda: asyncio.sleep(0))
        self.recovery = self.app.tables.recovery
        self.wait, self.recovery._wait = self.recovery._wait, self.wait_in_a_busy_loop
        self.consumer.pause_partitions({INPUT, CHANGELOG})
        self.app.flow_control.resume()
        self.consumer.resume_flow()

    @property
    def active(self) -> set[TP]:
        return set(self.consumer._get_active_partitions())

    async def wait_in_a_busy_loop(self, *args: Any, **kwargs: Any) -> None:
        """What recovery awaits has ended for some turns of the loop when recovery goes on."""
        await self.wait(*args, **kwargs)
        await self.turns()

    async def hand_out(self, message: Any) -> None:
        self.handed_out.append(message.offset)
        self.queue.put_nowait(message.offset)

    @property
    def waiting(self) -> list[int]:
        """What the queue of a stream holds that nobody has read from yet."""
        return list(self.queue._queue)

    async def seek_to_committed(self) -> dict[TP, int]:
        await asyncio.wait_for(self.sought.wait(), timeout=5)
        if self.fails:
            raise ConnectionError
        self.position = 10
        return {INPUT: self.position}

    async def one_record(self, **_: float) -> AsyncIterator[tuple[TP, Any]]:
        if INPUT in self.active and self.position < 14:
            self.position += 1
            yield INPUT, ConsumerMessage(*INPUT, self.position - 1, 0.0, 0, [], None, b"", None, 0, 0, INPUT)

    async def turns(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.fixture
async def worker() -> AsyncIterator[Worker]:
    made = Worker()
    draining = asyncio.ensure_future(made.consumer._drain_messages(made.consumer))
    yield made
    made.consumer._stopped.set()
    await asyncio.wait_for(draining, timeout=5)


@pytest.mark.parametrize("end", ["_resume_streams", "on_recovery_completed"])
async def test_nothing_is_handed_out_before_the_seek_nor_thrown_away_behind_it(
    worker: Worker, end: str
) -> None:
    resume_last(worker.app, worker.consumer)
    ending = asyncio.ensure_future(getattr(worker.recovery, end)(worker.app.consumer_generation_id))
    await worker.turns()
    assert worker.handed_out == []
    worker.sought.set()
    await asyncio.wait_for(ending, timeout=5)
    await worker.turns()
    assert worker.handed_out == worker.waiting == [10, 11, 12, 13]


async def test_if_the_seek_fails_the_inputs_go_on_all_the_same(worker: Worker) -> None:
    resume_last(worker.app, worker.consumer)
    worker.fails = True
    worker.sought.set()
    with pytest.raises(ConnectionError):
        await worker.recovery._resume_streams(worker.app.consumer_generation_id)
    assert worker.active == {INPUT}


async def test_a_fetch_that_is_under_way_takes_nothing_where_no_partition_is_active(worker: Worker) -> None:
    """aiokafka takes an empty set for all. What is resumed meanwhile it may take."""
    resume_last(worker.app, worker.consumer)
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
    worker: Worker,
) -> None:
    """It waits until all that it has taken in is acknowledged, and nothing held back ever would be."""
    driver = FaustDriver(worker.app, Config(namespace="n"))
    driver.consumer_made(worker.consumer)
    driver.conductor_made(worker.app.topics)
    assert driver.incoming is not None
    worker.app.topics._tp_to_callback[INPUT] = worker.hand_out
    driver.incoming.held.hold(INPUT, _record(worker, 0))
    await worker.app.topics._tp_to_callback[INPUT](_record(worker, 1))
    assert len(worker.consumer.unacked) == 2 and not worker.handed_out
    worker.consumer.commit = lambda: asyncio.sleep(0)
    worker.consumer.commit_and_end_transactions = lambda: asyncio.sleep(0)
    worker.consumer.stop_flow()
    assert not worker.consumer.unacked
    await worker.consumer.wait_empty()
    assert worker.app.topics._tp_to_callback[INPUT] == worker.hand_out


def _record(worker: Worker, offset: int) -> Message:
    message = Message("requests", 0, offset, 0.0, 0, None, b"k", b"v", None)
    worker.consumer.track_message(message)
    return message
