"""Readers of exact ranges: which messages they yield, and whose silence counts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import confluent_kafka
import pytest

from snapkafka.errors import TimedOutError
from snapkafka.kafka.records.exact_ranges import IDLE_S, messages_of


@dataclass
class Message:
    at: int
    problem: Any = None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def error(self) -> Any:
        return self.problem


class Broker:
    """What a consumer gets, batch by batch, and a clock that only waiting and the test move."""

    def __init__(self, *batches: list[Message]) -> None:
        self.batches, self.now = list(batches), 0.0

    def assign(self, places: list[Any]) -> None:
        assert [place.offset for place in places] == [3]

    def consume(self, most: int, within_s: float) -> list[Message]:
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
    broker, found = Broker([Message(3), Message(4)], [], [Message(5)]), []
    for message in reading(monkeypatch, broker):
        found.append(message.offset())
        broker.now += IDLE_S  # a restore waits for another broker, for instance
    assert found == [3, 4, 5]


def test_a_broker_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker([Message(3)])
    with pytest.raises(TimedOutError, match=r"t\[0\].*30"):
        list(reading(monkeypatch, broker))
    assert IDLE_S < broker.now < IDLE_S + 1
