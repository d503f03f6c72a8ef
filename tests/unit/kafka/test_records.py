"""Readers of exact ranges and the writer of many records: settings, silence, and what is named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock

import confluent_kafka
import pytest

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.records import bulk
from snapkafka.kafka.records.bulk import IDLE_S, PRODUCER, messages_of


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
