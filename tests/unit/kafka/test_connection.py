"""How to reach a cluster and to log in, in the form of each client library, and how its failures are named."""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from aiokafka import errors as theirs
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as KafkaPartition

from snapkafka import errors
from snapkafka.kafka import Connection, KafkaBulk, KafkaTopicAdmin, Security
from snapkafka.kafka.cluster import broker_errors
from snapkafka.kafka.login import security
from snapkafka.kafka.login.connection import translated
from snapkafka.kafka.records.bulk import client_settings
from snapkafka.protocol import TopicPartition
from tests.kafka.secured import make_certificates, token

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
    with nullcontext() if hosts else pytest.raises(errors.BadInputError):
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
        (theirs.RequestTimedOutError(), errors.BrokerUnavailableError),
        (TimeoutError(), errors.BrokerUnavailableError),
        (theirs.AuthenticationFailedError(), errors.AuthenticationError),
        (NO_TICKET, errors.AuthenticationError),
        (theirs.TopicAuthorizationFailedError("t"), errors.LedgerUnusableError),
        (theirs.UnknownError("odd\nindeed"), errors.LedgerUnusableError),
        (ValueError("SASL_SSL without user"), errors.BadInputError),
        (errors.BadInputError("ours"), errors.BadInputError),
        (AssertionError("a bug of ours"), AssertionError),
    ],
)
def test_failures_of_the_client_get_our_names(raised: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected) as error, translated(HERE, "read the ledger"):
        raise raised
    if isinstance(error.value, errors.SnapkafkaError):
        assert error.value.hint and "\n" not in error.value.message


ANSWERS = SimpleNamespace(send=AsyncMock(return_value=SimpleNamespace(brokers=[1])), close=lambda: None)


@pytest.mark.parametrize(
    ("raised", "then", "hint"),
    [
        (theirs.KafkaConnectionError("refused"), NO_TICKET, "KRB5_CLIENT_KTNAME"),
        *(
            (late, ANSWERS, "min.insync.replicas")
            for late in (theirs.KafkaTimeoutError(), theirs.NotEnoughReplicasError(), TimeoutError())
        ),
    ],
)
async def test_a_broker_is_asked_why_where_the_client_library_has_no_more_than_a_time_out(
    raised: Exception, then: object, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a ticket of Kerberos, or with too few replicas in sync, it is not away."""
    monkeypatch.setattr("snapkafka.kafka.login.connection.create_conn", AsyncMock(side_effect=[then]))
    expected = errors.AuthenticationError if then is NO_TICKET else errors.BrokerUnavailableError
    with pytest.raises(expected, check=lambda error: hint in error.hint):
        async with translated(HERE, "append to ledger x"):
            raise raised


async def test_a_group_without_a_coordinator_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has to know waits for it (D6), and does not go on as if nothing were committed."""
    monkeypatch.setattr(broker_errors, "PASSES_WITHIN_S", 0.5)
    moves = theirs.GroupCoordinatorNotAvailableError("Unable to get coordinator id")
    found = {KafkaPartition("in", 0): OffsetAndMetadata(5, "snapkafka:p")}
    asked = AsyncMock(side_effect=[moves, moves, found])
    client = SimpleNamespace(list_consumer_group_offsets=asked)
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    assert await KafkaTopicAdmin(HERE).committed("shop") == {TopicPartition("in", 0): (5, "snapkafka:p")}
    asked.side_effect = moves
    with pytest.raises(errors.BrokerUnavailableError):
        await KafkaTopicAdmin(HERE).committed("shop")


async def test_a_broker_that_knows_of_none_yet_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimpleNamespace(brokers=lambda: [SimpleNamespace(nodeId=1)])
    starting = SimpleNamespace(cluster=cluster, send=AsyncMock(return_value=SimpleNamespace(brokers=[])))
    client = SimpleNamespace(_client=starting)
    monkeypatch.setattr(KafkaTopicAdmin, "_connected", AsyncMock(return_value=client))
    with pytest.raises(errors.BrokerUnavailableError):
        await KafkaTopicAdmin(HERE).replicas()


PLAIN = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN"}
PLAIN |= {"SASL_USERNAME": "ann", "SASL_PASSWORD": "secret"}
TLS = {"SECURITY_PROTOCOL": "SSL"}
KERBEROS = PLAIN | {"SASL_MECHANISM": "GSSAPI", "SASL_KERBEROS_PRINCIPAL": "snap@SHOP"}
KERBEROS |= {"SASL_KERBEROS_KEYTAB": "/etc/snap.keytab"}


def read(settings: dict[str, str]) -> Security:
    return Security.from_environment({f"SNAPKAFKA_KAFKA_{name}": it for name, it in settings.items()})


def test_nothing_set_is_no_security() -> None:
    found = Connection.from_environment("broker:9092", {"SNAPKAFKA_BOOTSTRAP": "x:1"})
    assert not found.settings
    assert found.security == {} == found.settings.for_java()
    assert client_settings(found) == {"bootstrap.servers": "broker:9092", "log_level": 0}


def test_what_is_not_used_is_left_out_and_a_password_is_shown_nowhere() -> None:
    found = Connection.secured("broker:9092", read(PLAIN))
    unused = {"sasl.kerberos.keytab": "k", "ssl.ca.location": "/no/ca.pem"}
    assert Security.of({**found.settings.values, **unused}) == found.settings
    assert "secret" not in repr(found) + repr(found.settings)


@pytest.mark.parametrize(
    ("settings", "kind", "named"),
    [
        ({"SASL_USERNAME": "ann"}, errors.BadInputError, "security.protocol"),
        ({"SECURITY_PROTOCOL": "TLS"}, errors.BadInputError, "security.protocol is TLS"),
        (PLAIN | {"SASL_MECHANISM": "plain"}, errors.MechanismError, "sasl.mechanism is plain"),
        (PLAIN | {"SASL_MECHANISM": ""}, errors.MechanismError, "sasl.mechanism"),
        (PLAIN | {"SASL_PASSWROD": "x"}, errors.BadInputError, "PASSWROD"),
        (TLS | {"SSL_CA_LOCATION": "/no/ca.pem"}, errors.CertificateError, "/no/ca.pem, .* No such file"),
        (TLS | {"SSL_CERTIFICATE_LOCATION": "/no/c.pem"}, errors.CertificateError, "/no/c.pem"),
        (TLS | {"SSL_TRUSTSTORE_LOCATION": "x"}, errors.BadInputError, "SSL_TRUSTSTORE_LOCATION"),
        ({"CONFIG": "/no/client.properties"}, errors.BadInputError, "SNAPKAFKA_KAFKA_CONFIG is /no"),
    ],
)
def test_what_is_wrong_is_named(settings: dict[str, str], kind: type[Exception], named: str) -> None:
    with pytest.raises(errors.SnapkafkaError, match=named) as error:
        read(settings)
    assert type(error.value) is kind and error.value.hint


def test_the_name_of_a_host_may_be_left_unchecked_and_certificates_have_to_fit(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    key = {"SSL_KEY_LOCATION": f"{tmp_path}/client_key.pem"}
    settings = TLS | key | {"SSL_CERTIFICATE_LOCATION": f"{tmp_path}/client.pem"}
    assert read(settings).for_aiokafka()["ssl_context"].check_hostname
    lax = read(settings | {"SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": ""})
    assert not lax.for_aiokafka()["ssl_context"].check_hostname
    assert lax.for_java()["ssl.endpoint.identification.algorithm"] == ""
    assert lax.for_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"

    for wrong, named in (
        (settings | {"SSL_KEY_LOCATION": f"{tmp_path}/unknown_key.pem"}, "KEY_VALUES_MISMATCH"),
        (TLS | key, r"ssl\.certificate\.location"),
        (TLS | {"SSL_CA_LOCATION": f"{tmp_path}/names"}, "NO_CERT"),
    ):
        with pytest.raises(errors.CertificateError, match=named):
            read(wrong)


def test_kerberos_as_far_as_it_can_be_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI's confluent-kafka has no GSSAPI; nothing is asked of a broker before that is reported."""
    found = read(KERBEROS)
    assert found.for_java()["sasl.jaas.config"] == (
        "com.sun.security.auth.module.Krb5LoginModule required "
        'principal="snap@SHOP" keyTab="/etc/snap.keytab" useKeyTab="true" storeKey="true";'
    )
    assert found.for_librdkafka()["sasl.kerberos.keytab"] == "/etc/snap.keytab"
    monkeypatch.setattr(security, "find_spec", lambda name: None)
    with pytest.raises(errors.DependencyMissingError, match="gssapi"):
        found.for_aiokafka()
    monkeypatch.setattr(security, "find_spec", lambda name: name)
    with pytest.raises(errors.MechanismError) as error:
        KafkaBulk(Connection.secured("127.0.0.1:1", found))
    assert "--no-binary confluent-kafka" in error.value.hint


def test_the_expiry_of_a_token_is_its_own_or_assumed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    provider = security.TokenProvider(f"file:{file}", "", "", "")
    file.write_text(f"{(given := token('one', holds_s=100))}\n")
    fetched, expires = provider.fetch()
    assert fetched == given and abs(expires - time.time() - 100) < 5
    file.write_text(json.dumps("no JWT"))
    assert provider.fetch()[1] == pytest.approx(time.time() + security.ASSUMED_S, abs=5)
