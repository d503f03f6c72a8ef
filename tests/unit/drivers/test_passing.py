"""The short way past Faust's buffer: with the installed Faust and aiokafka, and a log that takes their batches."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import faust
import pytest
from faust.types.tuples import FutureMessage

from snapkafka.protocol import Cause, TopicPartition
from tests.unit.drivers.sending import Driver
from tests.unit.drivers.test_batches import THERE, Log, settle

INSIDE: ContextVar[str] = ContextVar("inside", default="")


class Buffered:
    """A worker's way out, with the buffer of Faust's producer and the task that empties it."""

    def __init__(self) -> None:
        self.log = Log()
        self.app = self.log.app
        self.producer = self.log.producer
        self.producer._started.set()  # nobody need start what has no broker
        self.buffer = self.producer.buffer
        self.driver = Driver(self.producer)
        self.topic: Any = self.app.topic("t", value_serializer="raw", key_serializer="raw")

    async def emptying(self) -> None:
        """As Faust's task does it, until nothing waits there."""
        while self.buffer.pending.qsize():
            await self.buffer._send_pending(self.buffer.pending.get_nowait())

    def soon(self, value: bytes = b"v", partition: int | None = 0, **more: Any) -> Any:
        return self.topic.send_soon(key=b"k", value=value, partition=partition, **more)

    def values(self) -> list[bytes]:
        return [record.value for record in self.log.records.get(THERE, ())]


@pytest.fixture
async def way() -> Buffered:
    return Buffered()


async def test_a_message_is_the_same_by_either_way(way: Buffered) -> None:
    """The record, what the app is told of it, and when."""
    other = Buffered()
    other.driver.outgoing._fast.in_buffer = 1  # nothing may pass
    reported: dict[Buffered, list[Any]] = {way: [], other: []}
    for one in (way, other):
        running = Cause("agent", TopicPartition("in", 0), 5)
        one.driver.machine.event_started(running)
        one.driver.events.cause_of_send = lambda of=running: of
        sensor = _Sensor(reported[one])
        one.app.sensors.add(sensor)
        for more in ({}, {"timestamp": 1.5}, {"headers": {"mine": b"1"}}, {"partition": None}):
            promise = one.soon(
                callback=lambda fut, of=reported[one]: of.append(("called", fut.result()[:4])), **more
            )
            assert isinstance(promise, FutureMessage)
        assert one.buffer.size == (0 if one is way else 4)
        await one.emptying()
        one.log.take()
        await settle()
        await settle()
    assert sorted(map(str, reported[way])) == sorted(map(str, reported[other]))
    assert len(reported[way]) == 4 * 3
    for tp, records in other.log.records.items():
        passed = way.log.records[tp]
        assert [record.headers for record in passed] == [record.headers for record in records]
        assert [record.value for record in passed] == [record.value for record in records]
        assert passed[1].timestamp == records[1].timestamp


class _Sensor(faust.Sensor):
    def __init__(self, reported: list[Any]) -> None:
        super().__init__()
        self._told = reported

    def on_send_initiated(self, producer: Any, topic: Any, message: Any, keysize: int, valsize: int) -> Any:
        self._told.append(("begins", topic, message.value, keysize, valsize))
        return valsize

    def on_send_completed(self, producer: Any, state: Any, metadata: Any) -> None:
        self._told.append(("ends", state, metadata[:4]))


async def test_a_partitioner_is_asked_once_for_each_record(way: Buffered) -> None:
    """Also where the batch is full and the record waits: one that takes turns would skip a partition."""
    asked: list[bytes] = []

    def in_turns(key: bytes, partitions: list[int], available: list[int]) -> int:
        asked.append(key)
        return partitions[(len(asked) - 1) % len(partitions)]

    way.producer._producer._partitioner = in_turns
    fill = 0
    while way.buffer.size < 3:
        way.soon(b"%d" % fill + b"." * 3_000, partition=None)
        fill += 1
    assert len(asked) <= fill
    leaving = asyncio.ensure_future(way.emptying())
    for _ in range(10):
        way.log.take()
        await settle()
    await leaving
    way.log.take()
    assert len(asked) == fill
    placed = {
        int(record.value.partition(b".")[0]): tp.partition
        for tp, records in way.log.records.items()
        for record in records
    }
    turns = len(set(placed.values()))
    assert placed == {n: n % turns for n in range(fill)}
    assert turns > 1


async def test_nothing_passes_what_waits_in_the_buffer(way: Buffered) -> None:
    """Also while it is on its way out of there: the latest write of a key must be the last in its changelog."""
    fill = 0
    while way.buffer.size == 0:
        way.soon(b"%d" % fill + b"." * 4_000)
        fill += 1
    way.soon(b"%d" % fill)
    fill += 1
    leaving = asyncio.ensure_future(way.emptying())
    await settle()
    assert way.buffer.size < 2, "the first one is on its way, and waits for a batch"
    way.soon(b"%d" % fill)
    assert way.buffer.size, "it did not pass"
    for _ in range(5):
        way.log.take()
        await settle()
    await leaving
    fill += 1
    way.soon(b"%d" % fill)
    assert way.buffer.size == 0, "nothing waits any more"
    way.log.take()
    assert [int(value.rstrip(b".")) for value in way.values()] == [*range(fill), fill]
    assert [stamp.seq for stamp in way.log.stamps()] == list(range(fill + 1))
    await settle()
    assert not way.driver.machine.colours.busy


async def test_what_is_called_back_is_in_no_event(way: Buffered) -> None:
    """As in Faust, whose task is in none: what it sends has the colour of the process."""
    found: list[str] = []
    INSIDE.set("an event")
    way.soon(callback=lambda _: found.append(INSIDE.get()))
    way.log.take()
    await settle()
    assert found == [""]


async def test_a_sensor_that_fails_brings_the_worker_down_as_it_does_in_faust(
    way: Buffered, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    await settle()
    assert crashed == [error]


async def test_a_topic_of_a_class_of_the_apps_own_is_left_to_faust(way: Buffered) -> None:
    """It may publish in a way of its own."""
    published: list[Any] = []

    class Own(faust.Topic):
        async def publish_message(self, fut: Any, wait: bool = False) -> Any:
            published.append(fut)

    Own(way.app, topics=["t"], value_serializer="raw", key_serializer="raw").send_soon(key=b"k", value=b"v")
    assert way.buffer.size == 1
    await way.emptying()
    assert len(published) == 1


async def test_another_faust_is_left_to_itself(way: Buffered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something goes around what is stood in for, or it is another release."""

    async def another(self: Any, fut: Any, wait: bool = False) -> Any:
        return await inner(self, fut, wait)

    inner = faust.Topic.publish_message
    monkeypatch.setattr(faust.Topic, "publish_message", another)
    other = Buffered()
    other.soon()
    assert other.buffer.size == 1
    await other.emptying()
    other.log.take()
    assert [stamp.seq for stamp in other.log.stamps()] == [0]


@pytest.mark.parametrize("why", ["another thread", "no identity"])
async def test_what_cannot_pass_goes_through_the_buffer(
    way: Buffered, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """As it would without us; a worker that stood down or has not joined has no identity."""
    if why == "another thread":
        monkeypatch.setattr(way.driver, "runs_here", lambda: False)
    else:
        way.driver.machine.process, way.driver.absent = None, "failed"
    way.soon()
    assert way.buffer.size == 1


async def test_what_was_put_before_there_was_snapkafka_is_not_passed() -> None:
    log = Log()
    topic: Any = log.app.topic("t", value_serializer="raw", key_serializer="raw")
    topic.send_soon(key=b"k", value=b"v", partition=0)
    driver = Driver(log.producer)
    topic.send_soon(key=b"k", value=b"w", partition=0)
    assert log.producer.buffer.size == 2
    assert driver.outgoing._fast.in_buffer == 2
