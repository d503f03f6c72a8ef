"""How readers share the loop and the broker, what they remember of what they have read, and what they name."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import confluent_kafka
import pytest
from aiokafka import TopicPartition as KafkaPartition

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.kafka import Connection
from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.ledger import reader
from snapkafka.kafka.ledger.reader import SLICE_S, Gulps, read_entries
from snapkafka.kafka.ledger.tail_marks import Marks, lost_since
from snapkafka.kafka.login import clients
from snapkafka.kafka.records import bulk
from snapkafka.kafka.records.bulk import IDLE_S, PRODUCER, messages_of
from snapkafka.ports import Entry
from snapkafka.protocol import LedgerRecord, Pause

TP = KafkaPartition("_snapkafka.n", 0)


class Log:
    """The part of aiokafka's consumer that the reader uses."""

    def __init__(self, length: int) -> None:
        self.length, self.at = length, 0

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def assign(self, _: Any) -> None: ...

    def seek(self, _: Any, offset: int) -> None:
        self.at = offset

    async def getmany(self, _: Any, *, timeout_ms: int, max_records: int) -> dict[KafkaPartition, list[Any]]:
        end = min(self.at + max_records, self.length)
        found = [
            SimpleNamespace(offset=at, value=b"", timestamp=at, headers=()) for at in range(self.at, end)
        ]
        self.at = end
        return {TP: found} if found else {}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Log, int], AsyncIterator[Entry]]:
    async def same() -> bool:
        return True

    def opened(log: Log, until: int) -> AsyncIterator[Entry]:
        monkeypatch.setattr(clients, "consumer", lambda *_, **__: log)
        return read_entries(
            Connection(bootstrap="127.0.0.1:1"), TP.topic, 0, until=until, same=same, suspect=asyncio.Event()
        )

    return opened


async def test_r15_others_have_their_turn_after_each_slice(
    read: Callable[[Log, int], AsyncIterator[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred records are taken at once; at two milliseconds each, the host stood still for half a second."""

    def slow(value: bytes) -> LedgerRecord:
        ends = time.perf_counter() + SLICE_S / 2.5
        while time.perf_counter() < ends:
            pass
        return Pause(n=1, paused=True)

    turns = 0

    async def host() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    monkeypatch.setattr(reader, "decode", slow)
    running = asyncio.ensure_future(host())
    since: dict[int, int] = {}
    async for _ in read(Log(100), 100):
        since[turns] = since.get(turns, 0) + 1
    running.cancel()
    assert max(since.values()) <= 6, "three to a slice, and the host may have its turn at its end"


async def test_who_is_in_a_hurry_while_a_gulp_is_taken_is_not_rested_upon() -> None:
    """A worker appends its own trigger while it reads: the next record is the one that it waits for."""
    gulps = Gulps(lambda: 60.0)
    gulps.hurry()
    await asyncio.wait_for(gulps.rest(), 5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gulps.rest(), 0.01)


@pytest.mark.parametrize("while_asked", ["end", "standing"])
async def test_r11_what_is_appended_while_a_reader_asks_what_stands_is_not_lost(while_asked: str) -> None:
    marks, log = Marks(), {offset: 100 + offset for offset in range(6)}
    for offset in range(5):
        marks.add(offset, log[offset])

    async def answer(what: str, value: Any) -> Any:
        if what == while_asked:
            marks.add(5, log[5])
        return value

    asks = (lambda: answer("start", 0), lambda: answer("end", 5), lambda *_: answer("standing", log))
    assert await lost_since(marks, *asks) is None


@pytest.mark.parametrize(
    ("now", "since"),
    [
        ([100, 101, 102, 103], None),
        ([100, 101, 102, 103, 104], None),
        ([100, 101, 102], 3),
        ([100, 7, 8, 9, 10], 1),
        ([7, 8], 0),
        ([], 0),
    ],
    ids=["as it was", "it has grown", "its tail", "grown again", "all that is remembered", "everything"],
)
async def test_r11_a_loss_shows_in_the_end_or_in_what_stands_there(now: list[int], since: int | None) -> None:
    marks = Marks()
    for offset in (0, 1, 3):  # one that was not read
        marks.add(offset, 100 + offset)

    async def standing(first: int, upto: int) -> dict[int, int]:
        return {offset: now[offset] for offset in range(first, upto)}

    async def at(offset: int) -> int:
        return offset

    assert await lost_since(marks, lambda: at(0), lambda: at(len(now)), standing) == since


# -- exact ranges, and many records ---------------------------------------------------------------------------


def message(offset: int, topic: str = "t", **more: Any) -> Mock:
    answers = {"topic": topic, "partition": 0, "offset": offset, "timestamp": (1, 5), "error": None}
    return Mock(**{f"{name}.return_value": value for name, value in answers.items()} | more)


def test_a_header_that_the_client_cannot_return_is_named() -> None:
    """It has a name that is not UTF-8, of a producer in another language."""
    odd = {"headers.side_effect": SystemError("returned a result with an exception set")}
    with pytest.raises(BadInputError, match=r"orders\[0\].*UTF-8"):
        bulk._record(message(7, "orders", **odd))


def test_a_record_is_not_sent_any_more_once_the_hold_of_its_groups_may_be_over() -> None:
    """A run that was suspended for longer than its hold finds what it had in hand timed out when it wakes up."""
    assert PRODUCER["message.timeout.ms"] / 1_000 < SESSION_S


class Broker:
    """What a consumer gets, batch by batch, and a clock that only waiting and the test move."""

    def __init__(self, *batches: list[Mock]) -> None:
        self.batches, self.now = list(batches), 0.0

    def assign(self, places: list[Any]) -> None:
        assert [place.offset for place in places] == [3]

    def consume(self, most: int, within_s: float) -> list[Mock]:
        self.now += within_s
        return self.batches.pop(0) if self.batches else []

    def close(self) -> None:
        pass


def reading(monkeypatch: pytest.MonkeyPatch, broker: Broker) -> Iterator[Any]:
    def refuse(topic: str, partition: int, error: Any) -> None:
        raise AssertionError(error)

    monkeypatch.setattr(confluent_kafka, "Consumer", lambda settings: broker)
    monkeypatch.setattr(time, "monotonic", lambda: broker.now)
    return messages_of({}, [("t", 0, 3, 6), ("t", 1, 4, 4)], refuse)


def test_a_caller_that_is_slow_is_no_silence_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    broker, found = Broker([message(3), message(4)], [], [message(5)]), []
    for record in reading(monkeypatch, broker):
        found.append(record.offset())
        broker.now += IDLE_S  # a restore waits for another broker, for instance
    assert found == [3, 4, 5]


def test_a_broker_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker([message(3)])
    with pytest.raises(TimedOutError, match=r"t\[0\].*30"):
        list(reading(monkeypatch, broker))
    assert IDLE_S < broker.now < IDLE_S + 1
