"""Kafka in Docker: what a container is told, and what is said of one that does not start. No engine is needed."""

from __future__ import annotations

from unittest.mock import Mock

import docker
import pytest
from testcontainers.community import kafka as containers

from snapkafka.errors import BrokerUnavailableError
from snapkafka.testing import broker
from snapkafka.testing.embedded import ONE_NODE


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Mock:
    made = Mock(image="a-kafka:1", **{"get_bootstrap_server.return_value": "localhost:1234"})
    made.with_kraft.return_value = made.with_env.return_value = made
    monkeypatch.setenv("SNAPKAFKA_TEST_KAFKA", "docker")
    monkeypatch.setattr(broker, "docker_engine_answers", lambda: True)
    monkeypatch.setattr(containers, "KafkaContainer", lambda: made)
    return made


def test_one_node_can_do_transactions_and_takes_the_settings_of_a_test(container: Mock) -> None:
    with broker.kafka(properties={"message.max.bytes": "1000"}) as kafka:
        assert kafka.bootstrap == "localhost:1234"
        container.stop.assert_not_called()
    env = dict(call.args for call in container.with_env.call_args_list)
    assert env["KAFKA_MESSAGE_MAX_BYTES"] == "1000"
    assert env["KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR"] == "1"
    assert len(env) == len(ONE_NODE) + 1
    assert container.start.call_args.kwargs["timeout"] >= 60, "a loaded machine gets none up in 30 s"
    container.stop.assert_called_once()


@pytest.mark.parametrize(
    "refusal", [docker.errors.ImageNotFound("no such image"), RuntimeError("exited"), TimeoutError("60 s")]
)
def test_one_that_does_not_start_is_named_and_removed(container: Mock, refusal: Exception) -> None:
    container.start.side_effect = refusal
    with pytest.raises(BrokerUnavailableError, match="a-kafka:1") as reported, broker.kafka():
        raise AssertionError("never there")
    assert "SNAPKAFKA_TEST_KAFKA=embedded" in reported.value.hint
    container.stop.assert_called_once()


def test_what_fails_in_a_test_is_not_the_container(container: Mock) -> None:
    with pytest.raises(TimeoutError, match="of the test"), broker.kafka():
        raise TimeoutError("of the test")
    container.stop.assert_called_once()
