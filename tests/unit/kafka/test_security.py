"""How to log in to Kafka is read from a properties file and the environment, and given to each client library."""

import json
import time
from pathlib import Path

import pytest

from snapkafka.errors import (
    BadInputError,
    CertificateError,
    DependencyMissingError,
    MechanismError,
    SnapkafkaError,
)
from snapkafka.kafka import Connection, KafkaBulk, Security
from snapkafka.kafka.login import security
from snapkafka.kafka.login.security import variable
from snapkafka.kafka.records.bulk import client_settings
from tests.kafka.secured import Certificates, make_certificates, token

PLAIN = {
    "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SNAPKAFKA_KAFKA_SASL_MECHANISM": "PLAIN",
    "SNAPKAFKA_KAFKA_SASL_USERNAME": "ann",
    "SNAPKAFKA_KAFKA_SASL_PASSWORD": "secret",
}
TLS = {"SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SSL"}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("pem"))


def read(environ: dict[str, str]) -> Security:
    return Security.from_environment(environ)


def test_nothing_set_is_no_security() -> None:
    found = Connection.from_environment("broker:9092", {"SNAPKAFKA_BOOTSTRAP": "x:1"})
    assert not found.settings
    assert found.security == {} == found.settings.for_java()
    assert client_settings(found) == {"bootstrap.servers": "broker:9092", "log_level": 0}


def test_a_password_in_the_form_of_each_client_is_shown_nowhere() -> None:
    found = Connection.from_environment("broker:9092", PLAIN)
    assert found.security == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }
    assert found.settings.for_java() == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ann" password="secret";',
    }
    bulk = client_settings(found)
    assert (bulk["sasl.username"], bulk["sasl.password"]) == ("ann", "secret")
    other = Security.of(
        {**found.settings.values, "sasl.kerberos.keytab": "k", "ssl.ca.location": "/no/ca.pem"}
    )
    assert other == found.settings, "of another protocol and mechanism"
    assert "secret" not in repr(found) + repr(found.settings)


def test_a_file_has_librdkafkas_names_and_the_environment_takes_precedence(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "# of ours\nbootstrap.servers = elsewhere:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        'sasl.mechanisms=SCRAM-SHA-512\nsasl.username=ann\nsasl.password=a"b=\\\ngroup.id=g\n'
    )
    found = read({"SNAPKAFKA_KAFKA_CONFIG": str(config)})
    assert found.values == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": 'a"b=\\',
    }
    other = read({"SNAPKAFKA_KAFKA_CONFIG": str(config), "SNAPKAFKA_KAFKA_SASL_PASSWORD": "other"})
    assert other.values["sasl.password"] == "other"


@pytest.mark.parametrize(
    ("environ", "kind", "said"),
    [
        ({"SNAPKAFKA_KAFKA_SASL_USERNAME": "ann"}, BadInputError, "security.protocol is not set"),
        ({"SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "TLS"}, BadInputError, "security.protocol is TLS"),
        ({**PLAIN, "SNAPKAFKA_KAFKA_SASL_MECHANISM": "plain"}, MechanismError, "sasl.mechanism is plain"),
        ({**PLAIN, "SNAPKAFKA_KAFKA_SASL_MECHANISM": ""}, MechanismError, "sasl.mechanism is not set"),
        ({**PLAIN, "SNAPKAFKA_KAFKA_SASL_PASSWROD": "x"}, BadInputError, "PASSWROD is not a setting"),
        ({**TLS, "SNAPKAFKA_KAFKA_SSL_CA_LOCATION": "/no/ca.pem"}, CertificateError, "/no/ca.pem, .* No such file"),
        ({**TLS, "SNAPKAFKA_KAFKA_SSL_CERTIFICATE_LOCATION": "/no/c.pem"}, CertificateError, "location is /no/c"),
        ({**TLS, "SNAPKAFKA_KAFKA_SSL_TRUSTSTORE_LOCATION": "x"}, BadInputError, "LOCATION is not a setting"),
        ({"SNAPKAFKA_KAFKA_CONFIG": "/no/client.properties"}, BadInputError, "SNAPKAFKA_KAFKA_CONFIG is /no"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_setting(
    environ: dict[str, str], kind: type[SnapkafkaError], said: str
) -> None:
    with pytest.raises(SnapkafkaError, match=said) as error:
        read(environ)
    assert type(error.value) is kind
    assert error.value.hint


def test_certificates_in_the_form_of_each_client(pem: Certificates) -> None:
    environ = {
        **TLS,
        "SNAPKAFKA_KAFKA_SSL_CA_LOCATION": pem.ca,
        "SNAPKAFKA_KAFKA_SSL_CERTIFICATE_LOCATION": pem.client,
        "SNAPKAFKA_KAFKA_SSL_KEY_LOCATION": pem.client_key,
    }
    found = read(environ)
    assert found.for_aiokafka()["ssl_context"].check_hostname
    java = found.for_java()
    assert java["ssl.keystore.certificate.chain"] == Path(pem.client).read_text().strip()
    assert java["ssl.keystore.key"] == Path(pem.client_key).read_text().strip()
    assert java["ssl.truststore.certificates"] == Path(pem.ca).read_text()
    assert found.for_librdkafka()["ssl.key.location"] == pem.client_key

    lax = read(environ | {variable("ssl.endpoint.identification.algorithm"): ""})
    assert not lax.for_aiokafka()["ssl_context"].check_hostname
    assert lax.for_java()["ssl.endpoint.identification.algorithm"] == ""
    assert lax.for_librdkafka()["ssl.endpoint.identification.algorithm"] == "none"

    with pytest.raises(CertificateError, match="KEY_VALUES_MISMATCH"):
        read(environ | {"SNAPKAFKA_KAFKA_SSL_KEY_LOCATION": pem.unknown_key})
    with pytest.raises(CertificateError, match=r"needs ssl\.certificate\.location"):
        read({**TLS, "SNAPKAFKA_KAFKA_SSL_KEY_LOCATION": pem.client_key})
    with pytest.raises(CertificateError, match="NO_CERT"):
        read({**TLS, "SNAPKAFKA_KAFKA_SSL_CA_LOCATION": str(pem.folder / "names")})


KERBEROS = {
    "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SNAPKAFKA_KAFKA_SASL_MECHANISM": "GSSAPI",
    "SNAPKAFKA_KAFKA_SASL_KERBEROS_PRINCIPAL": "snap@SHOP",
    "SNAPKAFKA_KAFKA_SASL_KERBEROS_KEYTAB": "/etc/snap.keytab",
}


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
    with pytest.raises(MechanismError, match="No provider") as error:
        KafkaBulk(Connection.from_environment("127.0.0.1:1", KERBEROS))
    assert "--no-binary confluent-kafka" in error.value.hint


def test_the_expiry_of_a_token_is_its_own_or_assumed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    provider = security.TokenProvider(f"file:{file}", "", "", "")
    file.write_text(f"{(given := token('one', holds_s=100))}\n")
    fetched, expires = provider.fetch()
    assert fetched == given and abs(expires - time.time() - 100) < 5
    file.write_text(json.dumps("no JWT"))
    assert provider.fetch()[1] == pytest.approx(time.time() + security.ASSUMED_S, abs=5)
