"""What a group has committed, while no broker coordinates it: a new cluster has none until one is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupCoordinatorNotAvailableError, NodeNotReadyError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import BrokerUnavailableError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster import asking_again
from snapkafka.kafka.cluster.groups import list_groups
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
    monkeypatch.setattr(asking_again, "COORDINATOR_WITHIN_S", 0.5)


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


class Groups:
    """The part of aiokafka's admin client that lists groups. Group `moved` is coordinated by broker 2 from now on."""

    def __init__(self) -> None:
        self.coordinator = {"a": 1, "b": 1, "moved": 1}
        self.away: set[int] = set()

    async def list_consumer_groups(self, brokers: list[int]) -> list[tuple[str, str]]:
        return [(name, "consumer") for name in self.coordinator]

    async def find_coordinator(self, name: str) -> int:
        return self.coordinator[name]

    async def list_consumer_group_offsets(self, name: str, group_coordinator_id: int) -> dict[Any, Any]:
        if group_coordinator_id in self.away:
            raise NodeNotReadyError
        # another broker knows nothing, and does not say that it is the wrong one
        return (
            {KafkaPartition(f"read-by-{name}", 0): 5}
            if self.coordinator[name] == group_coordinator_id
            else {}
        )

    async def describe_consumer_groups(self, names: list[str], group_coordinator_id: int) -> list[Any]:
        answers: list[tuple[int, str, str, str, str, list[Any]]] = [
            (0 if self.coordinator[name] == group_coordinator_id else 16, name, "Empty", "", "", [])
            for name in names
        ]
        return [SimpleNamespace(groups=answers)]


@pytest.mark.parametrize("away", [False, True])
async def test_a_group_whose_coordinator_has_moved_is_found_again(away: bool) -> None:
    """The wrong broker knows no positions: what the group reads would be missing, and markers would be sent there."""
    admin, known = Groups(), dict[str, int]()
    first = await list_groups(admin, [1, 2], known)
    admin.coordinator |= {"a": 2, "b": 2, "moved": 2} if away else {"moved": 2}
    admin.away = {1} if away else set()
    assert await list_groups(admin, [1, 2], known) == first
    assert known == admin.coordinator
