"""What a group has committed, while no broker coordinates it: a new cluster has none until one is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster import broker_errors
from snapkafka.protocol import TopicPartition

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
    monkeypatch.setattr(broker_errors, "PASSES_WITHIN_S", 0.5)


async def test_a_group_without_a_coordinator_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    admin, questions = asked(monkeypatch, refusals=2)
    assert await admin.committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    assert questions == ["shop"] * 3
    admin, _ = asked(monkeypatch, refusals=10_000)
    with pytest.raises(BrokerUnavailableError):
        await admin.committed("shop")
