"""A broker's own reason is in the message whenever it refuses a topic or a setting, whichever request it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiokafka import errors

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection, KafkaTopicAdmin

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
        self._client = SimpleNamespace(cluster=SimpleNamespace(brokers=lambda: [1]))

    async def _send_to_controller(self, request: Any) -> Any:
        return self.of_ours

    async def create_topics(self, topics: Any, *, validate_only: bool) -> Any:
        return self.answer

    async def describe_configs(self, resources: Any) -> Any:
        return [self.answer]


def admin_of(monkeypatch: pytest.MonkeyPatch, client: Client) -> KafkaTopicAdmin:
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
