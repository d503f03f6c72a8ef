"""Which Kafka, and how to get in: one value that every client is made from, and one place that names its failures."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import errors

from snapkafka.errors import BadInputError, BrokerUnavailableError, LedgerUnusableError, SnapkafkaError

__all__ = ["Connection", "hear_of", "translated"]

#: A broker that says nothing for this long is taken for absent: a person waits about ten seconds, not forty.
REQUEST_TIMEOUT_MS: Final = 8_000

#: Environment variable -> aiokafka setting. Certificates are an ssl context, see `from_environment`.
ENVIRONMENT: Final = {
    "SNAPKAFKA_SECURITY_PROTOCOL": "security_protocol",
    "SNAPKAFKA_SASL_MECHANISM": "sasl_mechanism",
    "SNAPKAFKA_SASL_USERNAME": "sasl_plain_username",
    "SNAPKAFKA_SASL_PASSWORD": "sasl_plain_password",
}
#: Those that take a name and a password. (GSSAPI and OAUTHBEARER take more than the environment says.)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A Kafka cluster as a client sees it.

    `bootstrap`: `host:port`, several separated by commas. `security`: what aiokafka's clients take beyond that
    (`security_protocol`, `ssl_context`, `sasl_mechanism`, ...), as it is.

    Raises:
        BadInputError: `bootstrap` is not a list of addresses.
    """

    bootstrap: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request_timeout_ms: int = REQUEST_TIMEOUT_MS

    def __post_init__(self) -> None:
        for address in self.hosts:
            host, colon, port = address.rpartition(":")
            if not address or (colon and (not host or not port.isdigit())):
                raise BadInputError(
                    f"invalid broker address: {self.bootstrap!r}", hint="write host:port[,host:port...]"
                )

    @property
    def hosts(self) -> list[str]:
        return [address.strip() for address in self.bootstrap.split(",")]

    def client_settings(self) -> dict[str, Any]:
        """Keyword arguments for any aiokafka client."""
        return {
            "bootstrap_servers": self.hosts,
            "client_id": "snapkafka",
            "request_timeout_ms": self.request_timeout_ms,
            **self.security,
        }

    @classmethod
    def from_environment(cls, bootstrap: str, environ: Mapping[str, str]) -> Connection:
        """With the credentials that the command takes from `SNAPKAFKA_SECURITY_PROTOCOL`, `SNAPKAFKA_SASL_MECHANISM`,
        `SNAPKAFKA_SASL_USERNAME`, `SNAPKAFKA_SASL_PASSWORD` and `SNAPKAFKA_SSL_CAFILE`.

        Raises:
            BadInputError: one of them makes no sense.
        """
        security: dict[str, Any] = {
            setting: environ[name] for name, setting in ENVIRONMENT.items() if environ.get(name)
        }
        mechanism = security.get("sasl_mechanism", MECHANISMS[0])
        if mechanism not in MECHANISMS:
            raise BadInputError(
                f"SNAPKAFKA_SASL_MECHANISM is {mechanism}, which is not supported",
                hint=f"it can be {' or '.join(MECHANISMS)}",
            )
        if security.get("security_protocol", "").endswith("SSL"):
            from aiokafka.helpers import create_ssl_context

            try:
                security["ssl_context"] = create_ssl_context(
                    cafile=environ.get("SNAPKAFKA_SSL_CAFILE") or None
                )
            except OSError as error:
                raise BadInputError(f"SNAPKAFKA_SSL_CAFILE cannot be used: {error}") from error
        return cls(bootstrap=bootstrap, security=security)


#: The cluster cannot be reached, or does not answer.
_ABSENT: Final = (
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.KafkaTimeoutError,
    errors.StaleMetadata,
    asyncio.TimeoutError,
    OSError,
)
_FORBIDDEN: Final = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
)
_UNKNOWN_TO_US: Final = (errors.AuthenticationFailedError, errors.AuthenticationMethodNotSupported)


@contextlib.contextmanager
def translated(connection: Connection, what: str) -> Iterator[None]:
    """Give the failures of the client library our names.

    Args:
        what: what is being done, as in "could not {what}".

    Raises:
        BrokerUnavailableError: nobody answers, or not for us.
        LedgerUnusableError: a right is missing, or the broker refuses for another reason.
    """
    try:
        yield
    except SnapkafkaError:
        raise
    except _FORBIDDEN as error:
        raise LedgerUnusableError(
            f"not allowed to {what} ({type(error).__name__})",
            hint="see docs/reference/ledger.md for the rights that it takes",
        ) from error
    except _UNKNOWN_TO_US as error:
        raise BrokerUnavailableError(
            f"the broker at {connection.bootstrap} refuses these credentials ({type(error).__name__})",
            hint="check SNAPKAFKA_SECURITY_PROTOCOL and SNAPKAFKA_SASL_*",
        ) from error
    except _ABSENT as error:
        # The client library does not say why it could not: wrong credentials look like a broker that is away.
        raise BrokerUnavailableError(
            f"no Kafka broker answers at {connection.bootstrap}"
            f"{', or not for these credentials' if connection.security else ''}: could not {what}",
            hint=f"{BrokerUnavailableError.hint}; or SNAPKAFKA_SECURITY_PROTOCOL and SNAPKAFKA_SASL_*"
            if connection.security
            else None,
        ) from error
    except errors.KafkaError as error:
        raise LedgerUnusableError(
            f"could not {what}: {_one_line(error)}", hint="see the broker's log"
        ) from error
    except ValueError as error:
        # The client library's word on settings that do not go together.
        raise BadInputError(f"could not {what}: {error}", hint="check the security settings") from error


def hear_of(consumer: Any, topics: Iterable[str]) -> None:
    """Let an aiokafka consumer ask for the leaders of topics all at once, before it is asked for their ends: else it
    learns of one topic after the other, 0.1 s each, and has given up before it knows a hundred."""
    for topic in set(topics):
        consumer._client.add_topic(topic)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__} {' '.join(str(error).split())}"[:200]
