"""What a broker answers an administrator: its own reason for a refusal, and a coordinator that moves."""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import errors
from aiokafka.errors import GroupCoordinatorNotAvailableError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster import broker_errors
from snapkafka.kafka.cluster.requests import Metadata, descriptions
from snapkafka.protocol import TopicPartition

POLICY: Final = errors.PolicyViolationError.errno
REASON: Final = "names of topics begin with the name of a team,\nsee the wiki"


class Client:
    """An aiokafka client whose broker refuses everything with the same reason."""

    def __init__(self, reason: str | None, code: int = POLICY) -> None:
        self.answer = SimpleNamespace(
            topic_errors=[("shop", code, reason)],
            resources=[(code, reason, 2, "shop", [])],
        )
        refused = SimpleNamespace(name="shop", error=code, why=reason)
        self.of_ours = SimpleNamespace(topics=[refused])

    async def _send_to_controller(self, request: Any) -> Any:
        return self.of_ours

    async def create_topics(self, topics: Any, *, validate_only: bool) -> Any:
        return self.answer

    async def describe_configs(self, resources: Any) -> Any:
        return [self.answer]


def admin_of(monkeypatch: pytest.MonkeyPatch, client: Any) -> KafkaTopicAdmin:
    async def connected(self: Any) -> Any:
        return client

    monkeypatch.setattr(KafkaTopicAdmin, "_connected", connected)
    return KafkaTopicAdmin(Connection(bootstrap="127.0.0.1:1"))


WAYS: Final[dict[str, Callable[[KafkaTopicAdmin], Awaitable[Any]]]] = {
    "create": lambda admin: admin.create_topic("shop", replicas=1),
    "validate": lambda admin: admin.create_topic("shop", replicas=1, validate_only=True),
    "describe": lambda admin: admin.topic_settings("shop"),
    "delete": lambda admin: admin.delete_topics("shop"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        (REASON, POLICY, "names of topics begin with the name of a team, see the wiki"),
        (None, POLICY, "satisfy"),  # what the code means
        (None, 89, "89"),
        ("Not yours.", errors.TopicAuthorizationFailedError.errno, "Not yours"),
    ],
)
async def test_the_reason_of_a_broker_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, way: str, reason: str | None, code: int, said: str
) -> None:
    with pytest.raises(LedgerUnusableError, match=said) as raised:
        await WAYS[way](admin_of(monkeypatch, Client(reason, code)))
    assert "shop" in raised.value.message
    assert "\n" not in raised.value.message


FOUND = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}


def asked(monkeypatch: pytest.MonkeyPatch, refusals: int) -> tuple[KafkaTopicAdmin, list[str]]:
    """An administrator whose cluster has no coordinator for so many questions, and the groups that it is asked for."""
    questions: list[str] = []

    async def offsets(group: str) -> dict[KafkaPartition, OffsetAndMetadata]:
        questions.append(group)
        if len(questions) <= refusals:
            raise GroupCoordinatorNotAvailableError("Unable to get coordinator id")
        return FOUND

    client = SimpleNamespace(list_consumer_group_offsets=offsets)
    return admin_of(monkeypatch, client), questions


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


ASKED = 500
ANSWER = Metadata.RESPONSE_TYPE(
    throttle_ms=0,
    brokers=[(1, "localhost", 9092, None)],
    cluster="cluster",
    controller=1,
    topics=[(0, "_snapkafka.x", b"\x07" * 16, False, [(0, 0, 1, 3, [1], [1], [])], 0)],
    rights=3400,
).encode()


def _answered() -> int:
    """Blocks of memory that Python has in use, once so many answers were read."""
    for _ in range(ASKED):
        found, failed = descriptions(Metadata.RESPONSE_TYPE.decode(ANSWER))
        assert found["_snapkafka.x"].partitions == 1 and not failed
        del found, failed
    return sys.getallocatedblocks()


def test_answers_that_were_read_leave_no_tuples_behind() -> None:
    """Of tuples that were cut to their size Python keeps two thousand for each: one of the topic, the partition and the
    broker for each answer."""
    gc.collect()  # those that are kept now
    gc.disable()
    try:
        before = _answered()
        assert _answered() - before < ASKED / 5
    finally:
        gc.enable()
