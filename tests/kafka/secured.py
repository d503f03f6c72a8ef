"""A broker with doors: an open one, SASL_SSL, one for clients with a certificate, one over IPv6, and one that leads to
an address out of reach; and the certificates."""

import base64
import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import admin

from snapkafka.testing import HOST, EmbeddedKafka
from tests.kafka.doors import broker_with_doors

USER, PASSWORD = "ann", 'se"cr\\et='
PREFIX = "SNAPKAFKA_KAFKA_"


@dataclass(frozen=True, slots=True)
class Secured:
    """A running broker, its doors by name, as `host:port`: `sasl`, `mutual`, `six`, `astray`; and certificates."""

    broker: EmbeddedKafka
    doors: Mapping[str, str]
    folder: Path

    def __getattr__(self, door: str) -> str:
        return self.doors[door.upper()]

    def by_password(self, mechanism: str = "PLAIN", **more: str) -> dict[str, str]:
        """Variables of the environment for the SASL_SSL door."""
        login = {"SECURITY_PROTOCOL": "SASL_SSL", "SSL_CA_LOCATION": f"{self.folder}/ca.pem"}
        login |= {"SASL_MECHANISM": mechanism, "SASL_USERNAME": USER, "SASL_PASSWORD": PASSWORD, **more}
        return {PREFIX + name: value for name, value in login.items()}

    def by_certificate(self, certificate: str = "client", key: str = "client_key") -> dict[str, str]:
        """Variables of the environment for the door that asks for a certificate; those of no name are left out."""
        files = {"CA": "ca", "CERTIFICATE": certificate, "KEY": key}
        login = {f"SSL_{of}_LOCATION": f"{self.folder}/{file}.pem" for of, file in files.items() if file}
        return {PREFIX + name: value for name, value in (login | {"SECURITY_PROTOCOL": "SSL"}).items()}


def make_certificates(folder: Path) -> None:
    """Two CAs, `ca` and `other`; `server` and `client` of the first, `unknown` of the second; keys in PKCS#8. All as
    `NAME.pem`, `NAME_key.pem`, and both in `NAME_store.pem`."""

    def openssl(arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, cwd=folder)

    ec = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    for ca in ("ca", "other"):
        openssl(f"req -x509 {ec} -days 2 -subj /CN={ca} -keyout {ca}_key.pem -out {ca}.pem")
    (folder / "names").write_text(f"subjectAltName=IP:{HOST},DNS:localhost")
    for name, ca in (("server", "ca"), ("client", "ca"), ("unknown", "other")):
        openssl(f"req {ec} -subj /CN={name} -keyout {name}_key.pem -out {name}.csr")
        by = f"-CAcreateserial -CA {ca}.pem -CAkey {ca}_key.pem"
        openssl(f"x509 -req -days 2 {by} -extfile names -in {name}.csr -out {name}.pem")
        both = "".join((folder / f"{name}{part}.pem").read_text() for part in ("_key", ""))
        (folder / f"{name}_store.pem").write_text(both)


def token(subject: str, *, holds_s: float = 600) -> str:
    """An unsecured JWT, such as a broker without an identity provider accepts."""

    def part(claims: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")

    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + holds_s})}."


@contextlib.contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    """PLAIN, SCRAM-SHA-512 and OAUTHBEARER (unsecured tokens) over TLS by one door, certificates by another."""
    make_certificates(folder)
    modules, door = "org.apache.kafka.common.security", "listener.name.sasl."
    password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        f"{door}plain.sasl.jaas.config": f'{modules}.plain.PlainLoginModule required user_{USER}="{password}";',
        f"{door}scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
        f"{door}oauthbearer.sasl.jaas.config": f"{modules}.oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/server_store.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        "listener.name.mutual.ssl.client.auth": "required",
    }
    doors = {"SASL": "SASL_SSL", "MUTUAL": "SSL", "SIX": "PLAINTEXT", "ASTRAY": "PLAINTEXT"}
    ways = {"hosts": {"SIX": "[::1]"}, "advertised": {"ASTRAY": f"{HOST}:1"}}
    with broker_with_doors(doors, properties, **ways) as (broker, at):
        scram = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = admin.UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())
        client = admin.AdminClient({"bootstrap.servers": broker.bootstrap})
        client.alter_user_scram_credentials([wanted])[USER].result(30)
        yield Secured(broker, at, folder)
