"""The settings of the clients that move many records."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from snapkafka.errors import BadInputError, LedgerUnusableError
from snapkafka.kafka import Connection
from snapkafka.kafka.cluster.group_hold import SESSION_S
from snapkafka.kafka.records import bulk
from snapkafka.kafka.records.bulk import PRODUCER


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
