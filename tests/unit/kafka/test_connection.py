"""How to reach a cluster, and how its failures are named."""

import gc
import sys
from types import SimpleNamespace
from unittest.mock import AsyncMock, call

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
from snapkafka.kafka.cluster.requests import Metadata, descriptions
from snapkafka.kafka.login.connection import translated
from snapkafka.protocol import TopicPartition

CREATE = "snapkafka.kafka.login.connection.create_conn"
HERE = Connection(bootstrap="broker:9092")


@pytest.mark.parametrize(
    ("bootstrap", "hosts"),
    [
        ("broker", ["broker:9092"]),
        ("kafka://one:9092;kafka://two", ["one:9092", "two:9092"]),
        ("aiokafka://one:1, two:2/", ["one:1", "two:2"]),
        ("[::1]:9093,[fe80::1%eth0],127.0.0.1:1", ["[::1]:9093", "[fe80::1%eth0]:9092", "127.0.0.1:1"]),
    ],
)
def test_addresses_are_read_as_people_and_faust_write_them(bootstrap: str, hosts: list[str]) -> None:
    connection = Connection(bootstrap=bootstrap)
    assert (connection.hosts, connection.bootstrap) == (hosts, ",".join(hosts))
    assert Connection(bootstrap=connection.bootstrap) == connection


@pytest.mark.parametrize(
    "bootstrap", ["", "broker:port", "broker:9092,", ":9092", "http://broker:9092", "a:1/b", "broker:99999"]
)
def test_what_is_no_address_is_said(bootstrap: str) -> None:
    with pytest.raises(BadInputError):
        Connection(bootstrap=bootstrap)


class GSSError(Exception):
    """As the package gssapi raises it; its errors are no `OSError` and no error of aiokafka."""

    __module__ = "gssapi.raw.misc"


@pytest.mark.parametrize("found_by", ["client", "diagnosis"])
async def test_without_a_ticket_of_kerberos_the_reason_and_what_to_do_are_in_one_line(
    found_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_ticket = GSSError("Major (458752): No credentials were supplied,\nMinor (2529639107): no cache found")
    monkeypatch.setattr(CREATE, AsyncMock(side_effect=no_ticket))
    with pytest.raises(AuthenticationError) as error:
        async with translated(HERE, "connect"):
            raise no_ticket if found_by == "client" else errors.KafkaConnectionError("refused")
    assert error.value.message == (
        "Kerberos has no ticket for the broker at broker:9092: "
        "Major (458752): No credentials were supplied, Minor (2529639107): no cache found"
    )
    assert "kinit" in error.value.hint and "KRB5_CLIENT_KTNAME" in error.value.hint


@pytest.mark.parametrize(
    "late", [errors.KafkaTimeoutError(), errors.NotEnoughReplicasError(), TimeoutError()]
)
async def test_too_few_replicas_in_sync_are_not_taken_for_a_broker_that_is_away(
    late: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library tells them by no more than a time-out."""
    answering = AsyncMock(return_value=SimpleNamespace(brokers=[1]))
    monkeypatch.setattr(CREATE, AsyncMock(return_value=SimpleNamespace(send=answering, close=lambda: None)))
    with pytest.raises(BrokerUnavailableError) as error:
        async with translated(HERE, "append to ledger x"):
            raise late
    assert "answers" in error.value.message and "min.insync.replicas" in error.value.hint


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
        (errors.UnsupportedSaslMechanismError("no"), MechanismError),
        (errors.TopicAuthorizationFailedError("t"), LedgerUnusableError),
        (errors.UnknownError("odd\nindeed"), LedgerUnusableError),
        (ValueError("SASL_SSL without user"), BadInputError),
        (BadInputError("ours"), BadInputError),
    ],
)
def test_failures_of_the_client_get_our_names_in_one_line(
    raised: Exception, expected: type[SnapkafkaError]
) -> None:
    with pytest.raises(expected) as error, translated(HERE, "read the ledger"):
        raise raised
    assert "\n" not in error.value.message
    assert error.value.hint


def test_bugs_of_ours_keep_their_names() -> None:
    with pytest.raises(AssertionError), translated(HERE, "read the ledger"):
        raise AssertionError


# -- an administrator -----------------------------------------------------------------------------------------


FOUND = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}


async def test_a_group_without_a_coordinator_is_asked_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    monkeypatch.setattr(broker_errors, "PASSES_WITHIN_S", 0.5)
    moves = errors.GroupCoordinatorNotAvailableError("Unable to get coordinator id")
    asked = AsyncMock(side_effect=[moves, moves, FOUND])
    client = SimpleNamespace(list_consumer_group_offsets=asked)
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    admin = KafkaTopicAdmin(Connection(bootstrap="127.0.0.1:1"))
    assert await admin.committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    assert asked.await_args_list == [call("shop")] * 3
    asked.side_effect = moves
    with pytest.raises(BrokerUnavailableError):
        await admin.committed("shop")


async def test_a_broker_that_knows_of_none_yet_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    starting = AsyncMock(return_value=SimpleNamespace(brokers=[]))
    cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])
    client = SimpleNamespace(_client=SimpleNamespace(cluster=cluster, send=starting))
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    with pytest.raises(BrokerUnavailableError):
        await KafkaTopicAdmin(HERE).replicas()


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
