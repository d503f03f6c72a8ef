"""How to reach a cluster and to log in, in the form of each client library, and how its failures are named."""

import json
import time
from contextlib import nullcontext
from pathlib import Path
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
    CertificateError,
    DependencyMissingError,
    LedgerUnusableError,
    MechanismError,
    SnapkafkaError,
)
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


# -- how to log in -------------------------------------------------------------------------------------------

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


def test_a_password_in_the_form_of_each_client_is_shown_nowhere() -> None:
    found = Connection.secured("broker:9092", read(PLAIN))
    assert found.security == {
        "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann", "sasl_plain_password": "secret",
    }  # fmt: skip
    assert found.settings.for_java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ann" password="secret";',
    }
    bulk = client_settings(found)
    assert (bulk["sasl.username"], bulk["sasl.password"]) == ("ann", "secret")
    unused = {"sasl.kerberos.keytab": "k", "ssl.ca.location": "/no/ca.pem"}
    assert Security.of({**found.settings.values, **unused}) == found.settings
    assert "secret" not in repr(found) + repr(found.settings)


def test_a_file_has_librdkafkas_names_and_the_environment_takes_precedence(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "# of ours\nbootstrap.servers = elsewhere:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        'sasl.mechanisms=SCRAM-SHA-512\nsasl.username=ann\nsasl.password=a"b=\\\ngroup.id=g\n'
    )
    assert read({"CONFIG": str(config)}).values == {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann", "sasl.password": 'a"b=\\',
    }  # fmt: skip
    other = read({"CONFIG": str(config), "SASL_PASSWORD": "other"})
    assert other.values["sasl.password"] == "other"


@pytest.mark.parametrize(
    ("settings", "kind", "named"),
    [
        ({"SASL_USERNAME": "ann"}, BadInputError, "security.protocol"),
        ({"SECURITY_PROTOCOL": "TLS"}, BadInputError, "security.protocol is TLS"),
        (PLAIN | {"SASL_MECHANISM": "plain"}, MechanismError, "sasl.mechanism is plain"),
        (PLAIN | {"SASL_MECHANISM": ""}, MechanismError, "sasl.mechanism"),
        (PLAIN | {"SASL_PASSWROD": "x"}, BadInputError, "PASSWROD"),
        (TLS | {"SSL_CA_LOCATION": "/no/ca.pem"}, CertificateError, "/no/ca.pem, .* No such file"),
        (TLS | {"SSL_CERTIFICATE_LOCATION": "/no/c.pem"}, CertificateError, "/no/c.pem"),
        (TLS | {"SSL_TRUSTSTORE_LOCATION": "x"}, BadInputError, "SSL_TRUSTSTORE_LOCATION"),
        ({"CONFIG": "/no/client.properties"}, BadInputError, "SNAPKAFKA_KAFKA_CONFIG is /no"),
    ],
)
def test_what_is_wrong_is_named_with_its_setting(
    settings: dict[str, str], kind: type[SnapkafkaError], named: str
) -> None:
    with pytest.raises(SnapkafkaError, match=named) as error:
        read(settings)
    assert type(error.value) is kind and error.value.hint


def test_certificates_in_the_form_of_each_client(tmp_path: Path) -> None:
    make_certificates(tmp_path)

    def pem(name: str) -> str:
        return (tmp_path / f"{name}.pem").read_text()

    key = {"SSL_KEY_LOCATION": f"{tmp_path}/client_key.pem"}
    settings = TLS | key | {"SSL_CA_LOCATION": f"{tmp_path}/ca.pem"}
    settings |= {"SSL_CERTIFICATE_LOCATION": f"{tmp_path}/client.pem"}
    found = read(settings)
    assert found.for_aiokafka()["ssl_context"].check_hostname
    java = found.for_java()
    assert java["ssl.keystore.certificate.chain"] == pem("client").strip()
    assert java["ssl.keystore.key"] == pem("client_key").strip()
    assert java["ssl.truststore.certificates"] == pem("ca")
    assert found.for_librdkafka()["ssl.key.location"] == key["SSL_KEY_LOCATION"]

    lax = read(settings | {"SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": ""})
    assert not lax.for_aiokafka()["ssl_context"].check_hostname
    assert lax.for_java()["ssl.endpoint.identification.algorithm"] == ""
    assert lax.for_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"

    for wrong, named in (
        (settings | {"SSL_KEY_LOCATION": f"{tmp_path}/unknown_key.pem"}, "KEY_VALUES_MISMATCH"),
        (TLS | key, r"ssl\.certificate\.location"),
        (TLS | {"SSL_CA_LOCATION": f"{tmp_path}/names"}, "NO_CERT"),
    ):
        with pytest.raises(CertificateError, match=named):
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
    with pytest.raises(DependencyMissingError, match="gssapi"):
        found.for_aiokafka()
    monkeypatch.setattr(security, "find_spec", lambda name: name)
    with pytest.raises(MechanismError) as error:
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
