"""What a group has committed, while no broker coordinates it: a new cluster has none until one is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka.cluster import asking_again
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition

FOUND = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}


def asked(monkeypatch: pytest.MonkeyPatch, refusals: int) -> tuple[KafkaTopicAdmin, list[str]]:
    """An administrator whose cluster has no coordinator for so many questions, and the groups that it is asked for."""
    questions: list[str] = []

    async def offsets(group: str) -> dict[KafkaPartition, OffsetAndMetadata]:
        questions.append(group)
        if len(questions) <= refusals:
            raise GroupCoordinatorNotAvailableError("Unable to get coordinator id")
        return FOUND

    cluster = SimpleNamespace(brokers=lambda: [1])
    client = SimpleNamespace(_client=SimpleNamespace(cluster=cluster), list_consumer_group_offsets=offsets)

    async def connected(self: Any) -> Any:
        return client

    monkeypatch.setattr(KafkaTopicAdmin, "_connected", connected)
    return KafkaTopicAdmin(Connection(bootstrap="127.0.0.1:1")), questions


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking_again, "COORDINATOR_WITHIN_S", 0.5)


async def test_a_group_whose_coordinator_comes_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, questions = asked(monkeypatch, refusals=2)
    assert await admin.committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    assert questions == ["shop"] * 3


async def test_a_group_without_a_coordinator_counts_as_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    admin, questions = asked(monkeypatch, refusals=10_000)
    with pytest.raises(BrokerUnavailableError, match="no broker coordinates group shop"):
        await admin.committed("shop")
    assert len(questions) > 1
