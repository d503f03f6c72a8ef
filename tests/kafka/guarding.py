"""A broker with two doors: one for everybody, and one for those who log in, who may do what they were granted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from snapkafka.kafka import Connection
from snapkafka.testing import HOST, EmbeddedKafka, free_ports

PASSWORD = "s"


@contextlib.contextmanager
def guarded_broker(
    users: Iterable[str], properties: Mapping[str, str] | None = None
) -> Iterator[tuple[EmbeddedKafka, str]]:
    """The broker, and the address of the door for `users`, who may do nothing unless `properties` say otherwise."""
    (port,) = free_ports(1)
    logins = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    broker = EmbeddedKafka(
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
            "listener.name.guarded.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
            f"PlainLoginModule required {logins};",
            **(properties or {}),
        }
    )
    controller = broker.controller_port
    broker.properties |= {
        "listeners": f"CLIENT://{broker.bootstrap},CONTROLLER://{HOST}:{controller},GUARDED://{HOST}:{port}",
        "advertised.listeners": f"CLIENT://{broker.bootstrap},GUARDED://{HOST}:{port}",
    }
    with broker:
        yield broker, f"{HOST}:{port}"


def login(address: str, user: str) -> Connection:
    """By the guarded door."""
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }
    return Connection(bootstrap=address, security=security)
