"""The short way past Faust's buffer: with the installed Faust and aiokafka, and a broker in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import AsyncMock

import faust
import pytest
from faust.exceptions import ProducerSendError

from snapkafka.drivers.faust.outbound.producer import OutgoingRecords
from snapkafka.protocol import Cause, Report, TopicPartition
from snapkafka.protocol.records import Abort

from .producing import THERE, Broker, Driver, Faust


class Buffered(Faust):
    """A worker's way out, with the buffer of Faust's producer and the task that empties it."""

    def __init__(self) -> None:
        self.driver = Driver()
        super().__init__(Broker(), self.driver)

    async def taken(self) -> None:
        """Wait until the broker has taken everything."""
        await self.client.flush()
        await self.driver.settle()


@pytest.fixture
async def way() -> AsyncIterator[Buffered]:
    made = Buffered()
    yield made
    await made.broker.close()


async def test_a_sensor_that_fails_ends_the_worker(way: Buffered, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not the agent that writes to a table."""
    error = RuntimeError("a sensor of the app's")

    class Failing(faust.Sensor):
        def on_send_initiated(self, *args: Any, **more: Any) -> Any:
            raise error

    crashed: list[BaseException] = []

    async def crash(reason: BaseException) -> None:
        crashed.append(reason)

    monkeypatch.setattr(way.buffer, "crash", crash)
    way.app.sensors.add(Failing())
    way.soon()
    await way.taken()
    assert crashed == [error]


@pytest.mark.parametrize("why", ["another thread", "no identity", "a topic of its own", "around Faust"])
async def test_what_goes_through_the_buffer(way: Buffered, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """As it would without us; a worker that stood down or has not joined has no identity."""

    class Own(faust.Topic):
        async def publish_message(self, fut: Any, wait: bool = False) -> Any:
            """In a way of its own."""

    if why == "another thread":
        monkeypatch.setattr(way.driver, "loop", asyncio.new_event_loop())
    elif why == "no identity":
        way.driver.machine.process, way.driver.absent = None, "failed"
    elif why == "around Faust":
        monkeypatch.setattr(faust.Topic, "publish_message", AsyncMock())
        way = Buffered()
    else:
        way.topic = Own(way.app, topics=["t"], value_serializer="raw", key_serializer="raw")
    way.soon()
    assert way.buffer.size == 1


async def test_a_producer_that_faust_makes_anew_stamps_too(way: Buffered) -> None:
    """Faust has one from its start to its stop; before and after, its own error tells."""
    await way.send()
    await way.taken()
    way.producer._producer = None
    with pytest.raises(faust.exceptions.NotReady):
        await way.send()
    assert way.outgoing.client() is None
    way.client = way.connect()
    await way.send()
    way.soon()
    assert way.buffer.size == 0
    await way.taken()
    assert way.broker.seqs() == [0, 1, 2]


async def test_r7_what_the_producer_itself_refuses_of_a_table_is_reported(way: Buffered) -> None:
    """The table has the value, and nobody is told. So open snapshots fail by name, and later ones list it; they are
    decided all the same."""
    way.client._max_request_size, driver = 1_000, way.driver
    way.outgoing.client()._surely_fits = 0
    driver.cause = cause = Cause("agent", TopicPartition("in", 0), 5)
    driver.machine.event_started(cause)
    epoch = driver.snapshot("open")
    way.soon(b"." * 1_001)
    with pytest.raises(ProducerSendError):
        await way.emptying()
    driver.machine.event_ended(cause)
    (abort,) = driver.found(Abort)
    assert (abort.epoch, abort.code, abort.culprit) == (epoch, "send-failed", "t[0]")
    assert not driver.machine.colours.busy
    driver.cause = None
    await way.send(b"later")
    await way.taken()
    driver.snapshot("next")
    await way.taken()
    await driver.settle()
    (closed,) = driver.found(Report)
    (end,) = [end for end in closed.sent if (end.topic, end.partition) == THERE]
    assert [(it.first, it.last, it.refused, it.undone) for it in end.unacknowledged] == [(0, 0, True, False)]
    assert end.last_seq == 1


async def test_what_was_put_before_there_was_snapkafka_is_not_passed() -> None:
    plain = Faust(Broker(), None)
    plain.soon()
    driver = Driver()
    out = OutgoingRecords(driver, plain.producer)  # type: ignore[arg-type]
    plain.soon(b"w")
    assert plain.buffer.size == 2
    await plain.emptying()
    plain.soon(b"x")
    assert plain.buffer.size == 0
    assert out.client() is not None
    await plain.client.flush()
    assert plain.broker.values() == [b"v", b"w", b"x"]
    await plain.broker.close()
