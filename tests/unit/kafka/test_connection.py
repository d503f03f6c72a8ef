"""How to reach a cluster, and how its failures are named."""

from contextlib import nullcontext
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from aiokafka import errors
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka.errors import (
    AuthenticationError,
    BadInputError,
    BrokerUnavailableError,
    LedgerUnusableError,
    MechanismError,
    SnapkafkaError,
)
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster import broker_errors
from snapkafka.kafka.login.connection import translated
from snapkafka.protocol import TopicPartition

HERE = Connection(bootstrap="broker:9092")


@pytest.mark.parametrize(
    ("bootstrap", "hosts"),
    [
        ("broker", ["broker:9092"]),
        ("kafka://one:9092;kafka://two", ["one:9092", "two:9092"]),
        ("aiokafka://one:1, two:2/", ["one:1", "two:2"]),
        ("[::1]:9093,[fe80::1%eth0],127.0.0.1:1", ["[::1]:9093", "[fe80::1%eth0]:9092", "127.0.0.1:1"]),
        *((it, []) for it in ("", "a:port", "a:9092,", ":9092", "http://a:9092", "a:1/b", "a:99999")),
    ],
)
def test_addresses_are_read_as_people_and_faust_write_them(bootstrap: str, hosts: list[str]) -> None:
    with nullcontext() if hosts else pytest.raises(BadInputError):
        connection = Connection(bootstrap=bootstrap)
        assert (connection.hosts, connection.bootstrap) == (hosts, ",".join(hosts))
        assert Connection(bootstrap=connection.bootstrap) == connection


class GSSError(Exception):
    """As the package gssapi raises it; its errors are no `OSError` and no error of aiokafka."""

    __module__ = "gssapi.raw.misc"


NO_TICKET = GSSError("Major (458752): No credentials were supplied,\nMinor (2529639107): no cache found")


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.KafkaConnectionError("refused"), BrokerUnavailableError),
        (errors.RequestTimedOutError(), BrokerUnavailableError),
        (errors.KafkaTimeoutError(), BrokerUnavailableError),
        (TimeoutError(), BrokerUnavailableError),
        (ConnectionRefusedError(), BrokerUnavailableError),
        (errors.AuthenticationFailedError(), AuthenticationError),
        (errors.SaslAuthenticationFailed("no"), AuthenticationError),
        (NO_TICKET, AuthenticationError),
        (errors.UnsupportedSaslMechanismError("no"), MechanismError),
        (errors.TopicAuthorizationFailedError("t"), LedgerUnusableError),
        (errors.UnknownError("odd\nindeed"), LedgerUnusableError),
        (ValueError("SASL_SSL without user"), BadInputError),
        (BadInputError("ours"), BadInputError),
        (AssertionError("a bug of ours"), AssertionError),
    ],
)
def test_failures_of_the_client_get_our_names_in_one_line(
    raised: Exception, expected: type[Exception]
) -> None:
    with pytest.raises(expected) as error, translated(HERE, "read the ledger"):
        raise raised
    if isinstance(error.value, SnapkafkaError):
        assert error.value.hint and "\n" not in error.value.message


ANSWER = SimpleNamespace(send=AsyncMock(return_value=SimpleNamespace(brokers=[1])), close=lambda: None)


@pytest.mark.parametrize(
    ("raised", "then", "expected", "hint"),
    [
        (errors.KafkaConnectionError("refused"), [NO_TICKET], AuthenticationError, "KRB5_CLIENT_KTNAME"),
        *(
            (late, [ANSWER], BrokerUnavailableError, "min.insync.replicas")
            for late in (errors.KafkaTimeoutError(), errors.NotEnoughReplicasError(), TimeoutError())
        ),
    ],
)
async def test_a_broker_is_asked_why_where_the_client_library_has_no_more_than_a_time_out(
    raised: Exception,
    then: list[object],
    expected: type[SnapkafkaError],
    hint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a ticket of Kerberos, or with too few replicas in sync, it is not away."""
    monkeypatch.setattr("snapkafka.kafka.login.connection.create_conn", AsyncMock(side_effect=then))
    with pytest.raises(expected) as error:
        async with translated(HERE, "append to ledger x"):
            raise raised
    assert hint in error.value.hint


# -- an administrator -----------------------------------------------------------------------------------------


async def test_a_group_without_a_coordinator_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    monkeypatch.setattr(broker_errors, "PASSES_WITHIN_S", 0.5)
    moves = errors.GroupCoordinatorNotAvailableError("Unable to get coordinator id")
    found = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}
    asked = AsyncMock(side_effect=[moves, moves, found])
    client = SimpleNamespace(list_consumer_group_offsets=asked)
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    assert await KafkaTopicAdmin(HERE).committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    asked.side_effect = moves
    with pytest.raises(BrokerUnavailableError):
        await KafkaTopicAdmin(HERE).committed("shop")


async def test_a_broker_that_knows_of_none_yet_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])
    starting = SimpleNamespace(cluster=cluster, send=AsyncMock(return_value=SimpleNamespace(brokers=[])))
    monkeypatch.setattr(
        KafkaTopicAdmin, "_connected", AsyncMock(return_value=SimpleNamespace(_client=starting))
    )
    with pytest.raises(BrokerUnavailableError):
        await KafkaTopicAdmin(HERE).replicas()
