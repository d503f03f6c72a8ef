"""Around a rebalance: what Faust takes in, on its own consumer (tests/features/test_recovery.py has all of it)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import faust
import pytest
from aiokafka.consumer.subscription_state import SubscriptionState
from faust.types import TP, Message

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.drivers.faust.inbound.membership import Membership
from snapkafka.drivers.faust.inbound.resume import resume_last
from snapkafka.drivers.reading import watch_positions

INPUT = TP("requests", 0)


class Worker:
    """A consumer whose flow is on, as for a recovery, with its input paused."""

    def __init__(self) -> None:
        self.app: Any = faust.App("resuming", broker="kafka://127.0.0.1:1", store="memory://")
        self.consumer = self.app.consumer
        self.consumer.assignment = lambda: {INPUT}
        self.consumer.pause_partitions({INPUT})
        self.app.flow_control.resume()
        self.consumer.resume_flow()

    def note(self, what: str, function: Any, *args: Any) -> Any:
        return function(*args)


@pytest.fixture
async def worker() -> Any:
    return Worker()


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


async def test_r16_a_revocation_does_not_wait_for_held_records(worker: Any) -> None:
    """It waits until all that it has taken in is acknowledged, and nothing held back ever would be."""
    driver, handed_out = FaustDriver(worker.app, Config(namespace="n")), list[Any]()

    async def hand_out(message: Any) -> None:
        handed_out.append(message)

    driver.attach()
    worker.app.topics._tp_to_callback[INPUT] = hand_out
    driver.held.hold(INPUT, _record(worker, 0))
    await worker.app.topics._tp_to_callback[INPUT](_record(worker, 1))
    assert len(worker.consumer.unacked) == 2 and not handed_out
    worker.consumer.commit = lambda: asyncio.sleep(0)
    worker.consumer.commit_and_end_transactions = lambda: asyncio.sleep(0)
    worker.consumer.stop_flow()
    assert not worker.consumer.unacked
    await worker.consumer.wait_empty()
    assert worker.app.topics._tp_to_callback[INPUT] == hand_out


async def test_r3_what_the_consumer_passes_is_noted_by_the_loop(worker: Any) -> None:
    """Of inputs only. The consumer has a thread of its own. A reset that was asked for is a seek."""
    driver, reply = FaustDriver(worker.app, Config(namespace="n")), TP(worker.app.conf.reply_to, 0)
    driver.attach()
    driver.loop, driver.thread = asyncio.get_running_loop(), -1
    client: Any = SimpleNamespace(_subscription=SubscriptionState(), _fetcher=Mock())
    watch_positions(client, Membership(driver, worker.consumer)._moved)
    client._subscription.subscribe({INPUT.topic, reply.topic})
    client._subscription.assign_from_subscribed({INPUT, reply})
    for tp in (INPUT, reply):
        state = client._subscription.subscription.assignment.state_value(tp)
        state.seek(5)
        client._fetcher.request_offset_reset([tp], "latest")
        for position in (9, 12):
            state.await_reset("latest")
            state.reset_to(position)
    assert not driver.machine.positions.skipped
    await asyncio.sleep(0)
    passed = [(it.topic, it.start, it.end, it.reason) for it in driver.machine.positions.skipped]
    assert passed == [(INPUT.topic, 5, 9, "sought"), (INPUT.topic, 9, 12, "lost")]


def _record(worker: Worker, offset: int) -> Message:
    message = Message("requests", 0, offset, 0.0, 0, None, b"k", b"v", None)
    worker.consumer.track_message(message)
    return message
