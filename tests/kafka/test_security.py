"""One set of settings logs every client in, and each reason why a broker refuses has its own name and exit status; and
how a cluster is addressed."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from snapkafka import ops
from snapkafka.errors import (
    AuthenticationError,
    BadInputError,
    BrokerUnavailableError,
    CertificateError,
    LedgerUnusableError,
    MechanismError,
    SnapkafkaError,
)
from snapkafka.kafka import Connection, KafkaBulk, KafkaLedger, KafkaRecord, KafkaTopicAdmin
from snapkafka.kafka.records.bulk import client_settings
from snapkafka.protocol import TopicPartition
from snapkafka.testing import create_topics
from tests.kafka.secured import Secured, secured_broker, token

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("certificates")) as found:
        create_topics(found.broker.bootstrap, "seen", partitions=1)
        yield found


@pytest.fixture(scope="module")
def identity_provider() -> Iterator[str]:
    """Gives tokens to the client `app` with the secret `s`; counts how often it was asked in `asked`."""

    class Provider(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            known = self.headers["Authorization"] == "Basic YXBwOnM="
            body = f'{{"access_token": "{token("app")}", "expires_in": 600}}'.encode() if known else b"{}"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    server.server_close()


def topics(bootstrap: str, environ: Mapping[str, str]) -> set[str]:
    """As the command and the workers see them, by aiokafka."""

    async def asked() -> set[str]:
        async with KafkaTopicAdmin(Connection.from_environment(bootstrap, environ)) as admin:
            return set(await admin.describe_topics())

    return asyncio.run(asked())


def topics_in_bulk(bootstrap: str, environ: Mapping[str, str]) -> set[str]:
    """As a restore sees them, by librdkafka."""
    settings = client_settings(Connection.from_environment(bootstrap, environ))
    consumer = Consumer(settings | {"group.id": "t"})
    try:
        consumer.poll(0.1)  # a token is asked for by it
        return set(consumer.list_topics(timeout=10).topics)
    finally:
        consumer.close()


def refused(bootstrap: str, environ: Mapping[str, str]) -> SnapkafkaError:
    with pytest.raises(SnapkafkaError) as error:
        topics(bootstrap, environ)
    return error.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_password_over_tls(secured: Secured, mechanism: str) -> None:
    environ = secured.by_password(mechanism)
    assert "seen" in topics(secured.sasl, environ)
    assert "seen" in topics_in_bulk(secured.sasl, environ)


def test_a_certificate(secured: Secured, tmp_path: Path) -> None:
    environ = secured.by_certificate()
    assert "seen" in topics(secured.mutual, environ)
    assert "seen" in topics_in_bulk(secured.mutual, environ)
    # certificate and key in one file, named in a properties file
    both = tmp_path / "both.pem"
    both.write_text(
        Path(secured.certificates.client_key).read_text() + Path(secured.certificates.client).read_text()
    )
    config = tmp_path / "client.properties"
    config.write_text(
        f"bootstrap.servers=elsewhere:9092\nsecurity.protocol=SSL\nssl.certificate.location={both}\n"
        f"ssl.ca.location={secured.certificates.ca}\n"
    )
    assert "seen" in topics(secured.mutual, {"SNAPKAFKA_KAFKA_CONFIG": str(config)})


def test_tokens_of_an_identity_provider_and_of_a_file(
    secured: Secured, identity_provider: str, tmp_path: Path
) -> None:
    environ = secured.by_password(
        "OAUTHBEARER",
        SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL=identity_provider,
        SASL_OAUTHBEARER_CLIENT_ID="app",
        SASL_OAUTHBEARER_CLIENT_SECRET="s",
    )
    assert "seen" in topics(secured.sasl, environ)
    assert "seen" in topics_in_bulk(secured.sasl, environ)
    (tmp_path / "token").write_text(token("app") + "\n")
    from_file = secured.by_password(
        "OAUTHBEARER", SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL=f"file:{tmp_path}/token"
    )
    assert "seen" in topics(secured.sasl, from_file)
    error = refused(secured.sasl, environ | {"SNAPKAFKA_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "wrong"})
    assert type(error) is AuthenticationError
    assert identity_provider in error.message
    assert "401" in error.message
    (tmp_path / "token").write_text(token("app", holds_s=-5))
    error = refused(secured.sasl, from_file)
    assert type(error) is AuthenticationError
    assert secured.sasl in error.message


#: The door, the environment, and how it ends.
REFUSED: list[tuple[str, Callable[[Secured], dict[str, str]], type[SnapkafkaError]]] = [
    ("sasl", lambda it: it.by_password("PLAIN", SASL_PASSWORD="wrong"), AuthenticationError),
    ("sasl", lambda it: it.by_password("SCRAM-SHA-512", SASL_PASSWORD="wrong"), AuthenticationError),
    ("sasl", lambda it: it.by_password("SCRAM-SHA-256"), MechanismError),  # the broker has it not
    ("sasl", lambda it: it.by_password(SSL_CA_LOCATION=it.certificates.other), CertificateError),
    ("mutual", lambda it: it.by_certificate("unknown"), CertificateError),
    ("mutual", lambda it: it.by_certificate(""), CertificateError),
    ("sasl", lambda it: {}, BrokerUnavailableError),  # a wrong protocol, as are the next two
    ("sasl", lambda it: it.by_certificate(), BrokerUnavailableError),
    ("client", lambda it: it.by_password(), BrokerUnavailableError),
]


@pytest.mark.parametrize(("door", "environ", "kind"), REFUSED)
def test_whom_the_broker_refuses_or_does_not_trust(
    secured: Secured, door: str, environ: Callable[[Secured], dict[str, str]], kind: type[SnapkafkaError]
) -> None:
    address = getattr(secured, door)
    error = refused(address, environ(secured))
    assert type(error) is kind
    assert address in error.message or (door == "mutual" and "certificate" in error.message)
    assert kind is not BrokerUnavailableError or "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL" in error.hint


# -- addresses ------------------------------------------------------------------------------------------------


async def test_over_ipv6_and_with_a_scheme_everything_works(secured: Secured) -> None:
    where = Connection(bootstrap=f"kafka://{secured.six}")
    ledger, admin = KafkaLedger(where, "six"), KafkaTopicAdmin(where)
    try:
        await ledger.open()
        await admin.create_topic("t")
        record = KafkaRecord("t", 0, -1, b"k", b"v", (), -1)
        (offsets,) = (await asyncio.to_thread(KafkaBulk(where).append, [record])).values()
        assert list(offsets) == [0]
    finally:
        await ledger.close()
        await admin.close()
    assert await ops.list_snapshots(where, "six") == ()


async def test_the_namespaces_of_a_cluster_are_listed_where_one_is_missing_or_unknown(
    secured: Secured,
) -> None:
    where = Connection(bootstrap=secured.broker.bootstrap)
    for name in ("shop", "bank"):
        ledger = KafkaLedger(where, name)
        await ledger.open()
        await ledger.close()
    with pytest.raises(BadInputError) as missing:
        await ops.list_snapshots(where, "")
    with pytest.raises(LedgerUnusableError, match=r"_snapkafka\.shopp") as unknown:
        await ops.list_snapshots(where, "shopp")
    for raised in (missing, unknown):
        assert all(name in raised.value.hint for name in ("shop", "bank"))


async def test_a_broker_that_gives_an_address_out_of_reach_may_have_the_wrong_listeners(
    secured: Secured,
) -> None:
    """The first connection goes well; all others go where the broker says."""
    async with KafkaTopicAdmin(Connection(bootstrap=secured.astray)) as admin:
        with pytest.raises(BrokerUnavailableError) as raised:
            await admin.describe_topics()
    assert secured.astray in raised.value.message
    assert "advertised.listeners" in raised.value.hint


@pytest.mark.parametrize("address", ["no-such-host.invalid:9092", "127.0.0.1:1"])
async def test_where_nobody_is_is_said_at_once(address: str) -> None:
    tp = TopicPartition("t", 0)
    async with KafkaTopicAdmin(Connection(bootstrap=address)) as admin:
        committed = admin.commit_positions("g", {tp: 1}, "")
        for question in (admin.describe_topics(), admin.log_ends([tp]), admin.groups(), committed):
            with pytest.raises(BrokerUnavailableError, match=address):
                await question
