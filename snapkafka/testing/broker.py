"""The Kafka of a test: one that runs already, which `SNAPKAFKA_TEST_BOOTSTRAP` names, or one of its own."""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol

from snapkafka.errors import BadInputError, BrokerUnavailableError
from snapkafka.runtime.extras import extra_missing
from snapkafka.testing.embedded import EmbeddedKafka
from snapkafka.until import Tries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LOOK_AGAIN_S: Final = 0.05


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
    bootstrap: str,
    *names: str,
    partitions: int = 1,
    config: Mapping[str, str] | None = None,
    timeout_s: float = 15.0,
) -> None:
    """Create topics and wait until the broker has them; those that exist stay as they are.

    Raises:
        BrokerUnavailableError: the broker refused, or did not answer in time.
        DependencyMissingError: confluent-kafka is not installed.
    """
    try:
        from confluent_kafka import KafkaError
        from confluent_kafka.admin import AdminClient, NewTopic
    except ImportError as error:
        raise extra_missing("demo", "creating topics", "confluent_kafka") from error
    wanted = [NewTopic(name, partitions, 1, config=dict(config or {})) for name in names]
    # Silent: that the broker leaves before this client is collected is no news.
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    limits = {"operation_timeout": timeout_s, "request_timeout": timeout_s}
    for name, created in admin.create_topics(wanted, **limits).items():
        problem = created.exception()
        if problem is not None and problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise BrokerUnavailableError(f"topic {name} could not be created: {problem.args[0].str()}")
    # The controller has them; the broker that is asked next may not yet.
    for _ in Tries(timeout_s, LOOK_AGAIN_S):
        missing = _without_leader(admin.list_topics(timeout=timeout_s).topics, names)
        if not missing:
            return
    raise BrokerUnavailableError(f"topic {missing[0]} was created, and has no leader yet")


def _without_leader(described: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [
        name
        for name in names
        if name not in described
        or not described[name].partitions
        or any(partition.leader < 0 for partition in described[name].partitions.values())
    ]
