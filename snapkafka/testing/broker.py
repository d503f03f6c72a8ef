"""The Kafka of a test: an existing one, one in Docker, or an embedded one.

| environment | meaning |
|---|---|
| `SNAPKAFKA_TEST_BOOTSTRAP` | use this broker; it is neither owned nor stopped |
| `SNAPKAFKA_TEST_KAFKA=embedded` | start one as a child process, even if a broker is named |
| `SNAPKAFKA_TEST_KAFKA=docker` | start one in Docker, or fail |

Otherwise one is started as a child process, whether or not a machine has Docker.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from snapkafka.errors import BadInputError, BrokerUnavailableError, DependencyMissingError
from snapkafka.runtime.extras import extra_missing
from snapkafka.testing.embedded import ONE_NODE, START_TIMEOUT_S, EmbeddedKafka
from snapkafka.until import Tries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

LOOK_AGAIN_S: Final = 0.05


class Broker(Protocol):
    """The interface of every test broker. An embedded one has more: `stop()`, `start()`, `kill()`."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients take it."""


class _ForeignBroker:
    """A broker that is run elsewhere."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


@contextlib.contextmanager
def kafka(*, properties: Mapping[str, str] | None = None, keep_data: bool = False) -> Iterator[Broker]:
    """Provide a Kafka broker for the length of the `with` block; see above for which.

    Args:
        properties: broker settings by their Kafka names; impossible with an existing broker.
        keep_data: leave the folder of an embedded broker where it is.

    Raises:
        BadInputError: the environment asks for something impossible.
        BrokerUnavailableError: it does not start; the message has its last log lines.
        DependencyMissingError: Docker, Java or jars are needed and unavailable.
        TimedOutError: it did not answer in time.
    """
    given = os.environ.get("SNAPKAFKA_TEST_BOOTSTRAP")
    kind = os.environ.get("SNAPKAFKA_TEST_KAFKA", "")
    if kind not in ("", "embedded", "docker"):
        raise BadInputError(f"SNAPKAFKA_TEST_KAFKA is {kind!r}", hint="it can be 'embedded' or 'docker'")
    if given and not kind:
        if properties:
            raise BadInputError(
                "this test needs a broker with settings of its own, and SNAPKAFKA_TEST_BOOTSTRAP names a given one",
                hint="use EmbeddedKafka(properties=...) in the test, or unset SNAPKAFKA_TEST_BOOTSTRAP",
            )
        yield _ForeignBroker(given)
    elif kind == "docker":
        with _in_docker(properties or {}) as broker:
            yield broker
    else:
        with EmbeddedKafka(properties=properties, keep_data=keep_data) as broker:
            yield broker


def docker_engine_answers() -> bool:
    """Return whether a Docker engine answers and testcontainers is installed; a `docker` command proves neither."""
    try:
        import docker
        import testcontainers.community.kafka  # noqa: F401 -- only whether it is there
    except ImportError:
        return False
    try:
        client = docker.from_env(timeout=5)
        with contextlib.closing(client):
            return bool(client.ping())
    except (docker.errors.DockerException, OSError):
        return False


@contextlib.contextmanager
def _in_docker(properties: Mapping[str, str]) -> Iterator[Broker]:
    try:
        import docker
        from testcontainers.community.kafka import KafkaContainer
    except ImportError as error:
        raise DependencyMissingError(
            f"Kafka in Docker needs testcontainers: {error}", hint="pip install testcontainers packaging"
        ) from error
    if not docker_engine_answers():
        raise BrokerUnavailableError(
            "no Docker engine answers", hint="start it, or SNAPKAFKA_TEST_KAFKA=embedded"
        )
    container = KafkaContainer().with_kraft()
    for name, value in {**ONE_NODE, **properties}.items():
        container = container.with_env("KAFKA_" + name.upper().replace(".", "_"), value)
    try:
        try:
            container.start(timeout=round(START_TIMEOUT_S))
        except (docker.errors.DockerException, RuntimeError, TimeoutError) as error:
            raise BrokerUnavailableError(
                f"{container.image} does not start in Docker: {error}",
                hint="SNAPKAFKA_TEST_KAFKA=embedded does without",
            ) from error
        yield _ForeignBroker(container.get_bootstrap_server())
    finally:
        container.stop()


def create_topics(
    bootstrap: str,
    *names: str,
    partitions: int = 1,
    replicas: int = 1,
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
    settings = dict(config or {})
    wanted = [
        NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=settings)
        for name in names
    ]
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
