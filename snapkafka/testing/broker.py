"""The Kafka of a test: one that runs already, which `SNAPKAFKA_TEST_BOOTSTRAP` names, or one of its own."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

from snapkafka.errors import BadInputError
from snapkafka.testing.embedded import EmbeddedKafka

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Broker(Protocol):
    """The interface of every test broker. An embedded one has more: `stop()`, `start()`, `kill()`."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients take it."""


@contextlib.contextmanager
def kafka(*, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Provide a Kafka broker for the length of the `with` block; see above for which.

    Args:
        properties: broker settings by their Kafka names; impossible with an existing broker.

    Raises:
        BadInputError: settings are asked for, and a broker is named.
        BrokerUnavailableError: it does not start; the message has its last log lines.
        DependencyMissingError: Java or jars are needed and unavailable.
        TimedOutError: it did not answer in time.
    """
    if given := os.environ.get("SNAPKAFKA_TEST_BOOTSTRAP"):
        if properties:
            raise BadInputError(
                "this test needs a broker with settings of its own, and SNAPKAFKA_TEST_BOOTSTRAP names a given one",
                hint="use EmbeddedKafka(properties=...) in the test, or unset SNAPKAFKA_TEST_BOOTSTRAP",
            )
        yield SimpleNamespace(bootstrap=given)
        return
    with EmbeddedKafka(properties=properties) as broker:
        yield broker


def create_topics(
    bootstrap: str, *names: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create topics and wait until the broker has them; those that exist stay as they are.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: the broker did not answer in time, or refused.
    """
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
    from snapkafka.kafka.login.connection import Connection
    from snapkafka.testing.taken import await_work

    async def create() -> None:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as admin:
            for name in names:
                await admin.create_topic(name, partitions=partitions, replicas=1, settings=config)

    await_work(create())
