"""The way in, with a conductor that only remembers: what is looked at, what is taken off, what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, Mock

import pytest
from faust.types import TP

from snapkafka.drivers.faust.inbound.conductor import IncomingRecords
from snapkafka.drivers.faust.inbound.running_events import Events, StreamRecords
from snapkafka.protocol import Report, TopicPartition
from snapkafka.wire import headers as wire
from tests.unit.drivers.producing import Driver

IN = TP("in", 0)


class Way:
    """The callback of one partition, and what came through it."""

    def __init__(self) -> None:
        self.driver = cast(Any, Driver())  # and a little more
        self.came: list[int] = []
        self.driver.events = SimpleNamespace(reply_topics=set())
        self.driver.tables = SimpleNamespace(topics=set())
        self.connect()

    def connect(self) -> None:
        conductor = SimpleNamespace(_build_handler=lambda tp, channels: self.take_in)
        IncomingRecords(self.driver, conductor)
        self.callback: Callable[[Any], Awaitable[Any]] = conductor._build_handler(IN, {"a channel"})

    async def take_in(self, message: Any) -> None:
        self.came.append(message.offset)

    def stamp(self, epoch: int, *, partition: int = 0) -> bytes:
        return wire.stamp(7, wire.tp_check("in", partition), epoch, 5, 1)


def message(offset: int, headers: Any, key: bytes | None = None, value: bytes | None = b"v") -> Any:
    return SimpleNamespace(
        topic="in", partition=0, tp=IN, offset=offset, headers=headers, key=key, value=value
    )


async def test_a_red_record_comes_in_after_the_cut() -> None:
    """R2."""
    way = Way()
    way.driver.machine.hear = frozenset({"headers"})
    epoch = way.driver.snapshot("now")
    assert way.driver.machine.colours.epoch == 0
    await way.callback(message(0, [("_sk", way.stamp(epoch))]))
    assert (way.driver.machine.colours.epoch, way.came) == (epoch, [0])


async def test_r2_a_record_whose_callback_is_cancelled_comes_again() -> None:
    """A rebalance does that while the ledger is read up to the trigger."""
    way = Way()
    way.driver.ledger = SimpleNamespace(end=asyncio.Event().wait)
    way.driver.started = True
    epoch = way.driver.machine.ledger.end + 1
    taking = asyncio.ensure_future(way.callback(message(0, [("_sk", way.stamp(epoch))])))
    await asyncio.sleep(0.01)
    assert not taking.done(), "the ledger is not read up to there"
    taking.cancel()
    await asyncio.wait([taking])
    assert way.came == [] and not way.driver.absent


@pytest.mark.parametrize("stamped", [True, False])
async def test_a_red_reply_tears_who_asked_in_white(*, stamped: bool) -> None:
    """R6: the record that brings the colour is the one that brings the cut. One
    without a header may be as red: who answered may have read red records."""
    way = Way()
    machine = way.driver.machine
    machine.hear = frozenset({"headers" if stamped else "ledger"})
    way.driver.reads = SimpleNamespace(unnoted={})
    way.driver.app.sensors = Mock()
    events = way.driver.events = Events(way.driver)
    consumer = SimpleNamespace(add=AsyncMock(), _fetchers={"in"})
    events.watch_replies(consumer)
    machine.takes_from(9)  # in a recovery: before all snapshots of this process
    way.driver.assign(TopicPartition("questions", 0), "ask")
    stream = SimpleNamespace(reading=StreamRecords("ask"))
    _, asking = events.event_in(TopicPartition("questions", 0), 3, stream, SimpleNamespace(message=None))
    way.connect()
    await consumer.add("id", None)
    epoch = way.driver.snapshot("now")
    await way.callback(message(0, [("_sk", way.stamp(epoch))] if stamped else []))
    assert machine.colours.running == {asking: epoch}
    (closed,) = way.driver.found(Report)
    assert [(torn.agent, torn.offset, torn.table) for torn in closed.torn] == [("ask", 3, "")]
    assert closed.taken == ((5,) if stamped else ())


async def test_a_marker_that_lost_its_header_reaches_no_agent_and_is_counted() -> None:
    """Something on the way removes headers. A tombstone of the app's own, of whatever key, is taken in as ever."""
    way = Way()
    acked: list[int] = []
    way.driver.app = SimpleNamespace(
        consumer=SimpleNamespace(_unacked_messages=(), ack=lambda message: acked.append(message.offset))
    )
    way.driver.about = dict
    for offset in (0, 1):
        await way.callback(message(offset, [], wire.marker_key(5), None))
    for offset, key in enumerate((None, b"k", b"_sk:", b"_sk:x"), 2):
        await way.callback(message(offset, None, key, None))
    await way.callback(message(6, None, wire.marker_key(5), b"v"))
    assert (acked, way.came) == ([0, 1], [2, 3, 4, 5, 6])
    assert way.driver.metrics.counts["ignored"]["foreign-header"] == 2
