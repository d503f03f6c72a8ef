"""Brokers with more doors than the open one; behind one of them everybody may do what was granted to them."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from snapkafka.kafka import Connection
from snapkafka.testing import HOST, EmbeddedKafka, free_ports

PASSWORD = "s"


@contextlib.contextmanager
def broker_with_doors(
    doors: Mapping[str, str],
    properties: Mapping[str, str],
    *,
    hosts: Mapping[str, str] = {},
    advertised: Mapping[str, str] = {},
) -> Iterator[tuple[EmbeddedKafka, dict[str, str]]]:
    """The broker, and the address of each door. `doors`: the protocol of each; `hosts`: where one does not listen on
    `HOST`; `advertised`: where one sends its clients elsewhere."""
    broker = EmbeddedKafka()
    at = {"CLIENT": broker.bootstrap}
    ports = zip(doors, free_ports(len(doors)), strict=True)
    at |= {name: f"{hosts.get(name, HOST)}:{port}" for name, port in ports}
    protocols = {"CLIENT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **doors}
    listeners = at | {"CONTROLLER": f"{HOST}:{broker.controller_port}"}
    broker.properties |= {
        "listener.security.protocol.map": ",".join(f"{name}:{of}" for name, of in protocols.items()),
        "listeners": ",".join(f"{name}://{of}" for name, of in listeners.items()),
        "advertised.listeners": ",".join(f"{name}://{of}" for name, of in (at | {**advertised}).items()),
        **properties,
    }
    with broker:
        yield broker, at


@contextlib.contextmanager
def guarded_broker(
    users: Iterable[str], properties: Mapping[str, str] = {}
) -> Iterator[tuple[EmbeddedKafka, str]]:
    """The broker, and the address of the door for `users`, who may do nothing unless `properties` say otherwise."""
    logins = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.guarded.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        f"PlainLoginModule required {logins};",
    }
    with broker_with_doors({"GUARDED": "SASL_PLAINTEXT"}, settings | {**properties}) as (broker, at):
        yield broker, at["GUARDED"]


def login(address: str, user: str) -> Connection:
    """By the guarded door."""
    security = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": PASSWORD,
    }
    return Connection(bootstrap=address, security=security)
