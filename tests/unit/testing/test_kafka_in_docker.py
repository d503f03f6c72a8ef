"""Kafka in Docker: what a container is told, and what is said of one that does not start. No engine is needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import docker
import pytest
from testcontainers.community import kafka as containers

from snapkafka.errors import BrokerUnavailableError
from snapkafka.testing import broker
from snapkafka.testing.embedded import ONE_NODE


class Container:
    """Stands for testcontainers' own."""

    made: ClassVar[list[Container]] = []
    refuses: Exception | None = None
    image = "a-kafka:1"

    def __init__(self) -> None:
        self.env: dict[str, str] = {}
        self.states: list[str] = []
        self.made.append(self)

    def with_kraft(self) -> Self:
        return self

    def with_env(self, name: str, value: str) -> Self:
        self.env[name] = value
        return self

    def start(self, timeout: int) -> None:
        self.states.append("started")
        assert timeout >= 60, "a loaded machine gets no broker up in the 30 s of testcontainers"
        if self.refuses is not None:
            raise self.refuses

    def stop(self) -> None:
        self.states.append("stopped")

    def get_bootstrap_server(self) -> str:
        return "localhost:1234"


@pytest.fixture(autouse=True)
def _docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SNAPKAFKA_TEST_KAFKA", "docker")
    monkeypatch.setattr(broker, "docker_engine_answers", lambda: True)
    monkeypatch.setattr(containers, "KafkaContainer", Container)
    Container.made.clear()
    yield
    Container.refuses = None


def test_one_node_can_do_transactions_and_takes_the_settings_of_a_test() -> None:
    with broker.kafka(properties={"message.max.bytes": "1000"}) as kafka:
        assert kafka.bootstrap == "localhost:1234"
    (container,) = Container.made
    assert container.env["KAFKA_MESSAGE_MAX_BYTES"] == "1000"
    assert container.env["KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"] == "1"
    assert len(container.env) == len(ONE_NODE) + 1
    assert container.states == ["started", "stopped"]


@pytest.mark.parametrize(
    "refusal",
    [docker.errors.ImageNotFound("no such image"), RuntimeError("exited"), TimeoutError("no word in 60 s")],
    ids=lambda refusal: type(refusal).__name__,
)
def test_one_that_does_not_start_is_named_and_removed(refusal: Exception) -> None:
    Container.refuses = refusal
    with (
        pytest.raises(BrokerUnavailableError, match="a-kafka:1") as reported,
        broker.kafka(),
    ):
        raise AssertionError("never there")
    assert "SNAPKAFKA_TEST_KAFKA=embedded" in reported.value.advice
    assert Container.made[0].states == ["started", "stopped"]


def test_what_fails_in_a_test_is_not_the_container() -> None:
    def body(**kwargs: Any) -> None:
        with broker.kafka(**kwargs):
            raise TimeoutError("of the test")

    with pytest.raises(TimeoutError, match="of the test"):
        body()
    assert Container.made[0].states == ["started", "stopped"]
