"""Readers of exact ranges and the writer of many records: settings, silence, and what is named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import confluent_kafka
import pytest

from snapkafka.errors import BadInputError, LedgerUnusableError, TimedOutError
from snapkafka.kafka import Connection
from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.records import bulk
from snapkafka.kafka.records.bulk import IDLE_S, PRODUCER, messages_of


def test_a_header_that_the_client_cannot_return_is_named() -> None:
    """It has a name that is not UTF-8, of a producer in another language."""
    message = Mock(
        **{
            "topic.return_value": "orders",
            "partition.return_value": 3,
            "offset.return_value": 7,
            "timestamp.return_value": (1, 5),
            "headers.side_effect": SystemError("returned a result with an exception set"),
        }
    )
    with pytest.raises(BadInputError, match=r"orders\[3\].*UTF-8"):
        bulk._record(message)


def test_a_topic_that_was_deleted_is_not_created_again_by_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changelog would come back with `cleanup.policy=delete`. The mutant is a producer with librdkafka's own
    settings, on librdkafka's own broker."""
    confluent = pytest.importorskip("confluent_kafka")
    settings = {"test.mock.num.brokers": 1, "log_level": 0}
    done: list[Any] = []
    mutant = confluent.Producer(settings)
    mutant.produce("deleted", b"v", partition=0, on_delivery=lambda error, _: done.append(error))
    assert mutant.flush(20) == 0
    assert done == [None], "it was created"

    restore = bulk.KafkaBulk(Connection(bootstrap="127.0.0.1:1"))
    restore._settings = settings
    monkeypatch.setitem(PRODUCER, "topic.metadata.propagation.max.ms", 300)
    record = SimpleNamespace(topic="deleted", partition=0, key=b"k", value=b"v", headers=(), timestamp_ms=1)
    with pytest.raises(LedgerUnusableError, match="deleted"):
        restore.append([record])


def test_a_record_is_not_sent_any_more_once_the_hold_of_its_groups_may_be_over() -> None:
    """A run that was suspended for longer than its hold finds what it had in hand timed out when it wakes up."""
    assert PRODUCER["message.timeout.ms"] / 1_000 < SESSION_S


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
