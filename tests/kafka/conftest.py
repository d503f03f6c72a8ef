"""The connection to the broker of the tests, and its administration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from snapkafka.kafka import Connection, KafkaTopicAdmin

if TYPE_CHECKING:
    from snapkafka.testing import Broker


@pytest.fixture
def connection(kafka: Broker) -> Connection:
    return Connection(bootstrap=kafka.bootstrap)


@pytest.fixture
async def admin(connection: Connection) -> AsyncIterator[KafkaTopicAdmin]:
    async with KafkaTopicAdmin(connection) as found:
        yield found
