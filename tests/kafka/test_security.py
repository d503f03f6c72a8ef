"""One set of settings logs every client in, and each reason why a broker refuses has its own name and exit status; and
how a cluster is addressed."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from confluent_kafka import Consumer

from snapkafka import errors, ops
from snapkafka.kafka import Connection, KafkaBulk, KafkaLedger, KafkaRecord, KafkaTopicAdmin
from snapkafka.kafka.records.bulk import client_settings
from snapkafka.protocol import TopicPartition
from snapkafka.testing import HOST, create_topics
from tests.kafka.secured import PASSWORD, PREFIX, USER, Secured, secured_broker, token

pytestmark = pytest.mark.timeout(120)


class Provider(BaseHTTPRequestHandler):
    """An identity provider, which gives tokens to the client `app` with the secret `s`."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        known = self.headers["Authorization"] == "Basic YXBwOnM="
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(f'{{"access_token": "{token("app")}"}}'.encode() if known else b"")

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """With an identity provider at the address `provider`; in its folder are tokens and a file of settings."""
    folder = tmp_path_factory.mktemp("certificates")
    with secured_broker(folder) as found, HTTPServer((HOST, 0), Provider) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        create_topics(found.broker.bootstrap, "seen")
        (folder / "token").write_text(token("app") + "\n")
        (folder / "expired").write_text(token("app", holds_s=-5))
        (folder / "settings").write_text(
            "# of ours\nbootstrap.servers = elsewhere:9092\ngroup.id=g\nsecurity.protocol=SASL_SSL\n"
            "sasl.mechanisms=SCRAM-SHA-512\nsasl.username=bob\n"
            f"sasl.password={PASSWORD}\nssl.ca.location={folder}/ca.pem\n"
        )
        provider = f"http://{HOST}:{server.server_port}/token"
        yield replace(found, doors={**found.doors, "PROVIDER": provider})
        server.shutdown()


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


def by_token(secured: Secured, url: str, secret: str = "s") -> dict[str, str]:
    client = {"SASL_OAUTHBEARER_CLIENT_ID": "app", "SASL_OAUTHBEARER_CLIENT_SECRET": secret}
    return secured.by_password("OAUTHBEARER", SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL=url, **client)


Environ = Callable[[Secured], dict[str, str]]
#: The door, and the environment.
LET_IN: list[tuple[str, Environ]] = [
    ("sasl", lambda it: it.by_password("PLAIN")),
    ("sasl", lambda it: it.by_password("SCRAM-SHA-512")),
    ("sasl", lambda it: by_token(it, it.provider)),
    ("sasl", lambda it: by_token(it, f"file:{it.folder}/token")),
    ("mutual", lambda it: it.by_certificate()),
    ("mutual", lambda it: it.by_certificate("client_store", key="")),  # both are in one file
    # A file has librdkafka's names, and the environment takes precedence.
    ("sasl", lambda it: {f"{PREFIX}CONFIG": f"{it.folder}/settings", f"{PREFIX}SASL_USERNAME": USER}),
]


@pytest.mark.parametrize(("door", "environ"), LET_IN)
def test_a_client_with_the_right_login_is_let_in(secured: Secured, door: str, environ: Environ) -> None:
    for see in (topics, topics_in_bulk):
        assert "seen" in see(getattr(secured, door), environ(secured))


#: The door, the environment, and how it ends.
REFUSED: list[tuple[str, Environ, type[errors.SnapkafkaError]]] = [
    ("sasl", lambda it: it.by_password("PLAIN", SASL_PASSWORD="wrong"), errors.AuthenticationError),
    ("sasl", lambda it: it.by_password("SCRAM-SHA-512", SASL_PASSWORD="wrong"), errors.AuthenticationError),
    ("sasl", lambda it: by_token(it, it.provider, "wrong"), errors.AuthenticationError),
    ("sasl", lambda it: by_token(it, f"file:{it.folder}/expired"), errors.AuthenticationError),
    ("sasl", lambda it: it.by_password("SCRAM-SHA-256"), errors.MechanismError),  # the broker has it not
    ("sasl", lambda it: it.by_password(SSL_CA_LOCATION=f"{it.folder}/other.pem"), errors.CertificateError),
    ("mutual", lambda it: it.by_certificate("unknown", "unknown_key"), errors.CertificateError),
    ("mutual", lambda it: it.by_certificate("", ""), errors.CertificateError),
    ("sasl", lambda it: {}, errors.BrokerUnavailableError),  # a wrong protocol, as are the next two
    ("sasl", lambda it: it.by_certificate(), errors.BrokerUnavailableError),
    ("client", lambda it: it.by_password(), errors.BrokerUnavailableError),
]


@pytest.mark.parametrize(("door", "environ", "kind"), REFUSED)
def test_who_is_refused(secured: Secured, door: str, environ: Environ, kind: type[Exception]) -> None:
    address = getattr(secured, door)
    with pytest.raises(errors.SnapkafkaError) as raised:
        topics(address, environ(secured))
    assert type(raised.value) is kind
    named = (address, "certificate") if door == "mutual" else (address, f"{secured.provider} gave no token")
    assert any(it in raised.value.message for it in named)
    if kind is errors.BrokerUnavailableError:
        assert "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL" in raised.value.hint


async def test_over_ipv6_and_with_a_scheme_everything_works(secured: Secured) -> None:
    """Where a namespace is missing or unknown, those of the cluster are listed."""
    where = Connection(bootstrap=f"kafka://{secured.six}")
    ledger = KafkaLedger(where, "six")
    await ledger.open()
    await ledger.close()
    assert await ops.list_snapshots(where, "six") == ()
    record = KafkaRecord("seen", 0, -1, b"k", b"v", (), -1)
    (offsets,) = (await asyncio.to_thread(KafkaBulk(where).append, [record])).values()
    assert list(offsets) == [0]
    for unknown, kind in (("", errors.BadInputError), ("sixx", errors.LedgerUnusableError)):
        with pytest.raises(kind) as raised:
            await ops.list_snapshots(where, unknown)
        assert "six" in raised.value.hint


@pytest.mark.parametrize("address", ["no-such-host.invalid:9092", "127.0.0.1:1"])
async def test_where_nobody_is_is_said_at_once(address: str) -> None:
    tp = TopicPartition("t", 0)
    async with KafkaTopicAdmin(Connection(bootstrap=address)) as admin:
        committed = admin.commit_positions("g", {tp: 1}, "")
        for question in (admin.describe_topics(), admin.log_ends([tp]), admin.groups(), committed):
            with pytest.raises(errors.BrokerUnavailableError, match=address):
                await question


async def test_a_broker_that_gives_an_address_out_of_reach_has_wrong_listeners(secured: Secured) -> None:
    """The first connection goes well; all others go where the broker says."""
    async with KafkaTopicAdmin(Connection(bootstrap=secured.astray)) as admin:
        with pytest.raises(errors.BrokerUnavailableError, match=secured.astray) as raised:
            await admin.describe_topics()
    assert "advertised.listeners" in raised.value.hint
