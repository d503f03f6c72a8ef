"""The connection to Kafka: one value from which every client is made, and one place that names its failures, with the
reasons that a client library does not pass on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import errors
from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from snapkafka.errors import (
    AuthenticationError,
    BadInputError,
    BrokerUnavailableError,
    CertificateError,
    LedgerUnusableError,
    MechanismError,
    SnapkafkaError,
)

from .addresses import addresses
from .security import Security

#: A broker that says nothing for this long is taken for absent: a person waits about ten seconds, not forty.
REQUEST_TIMEOUT_MS: Final = 8_000
#: A broker's reason is shown up to this length; a policy of a cluster may answer with a page.
REASON_LENGTH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A Kafka cluster as a client sees it.

    `bootstrap`: `host:port`, several separated by commas; read in any form of `addresses`. `security`: further
    arguments of aiokafka's clients (`security_protocol`, `ssl_context`, `sasl_mechanism`, ...). `settings`: their
    source, for the clients of other libraries. `client_id`: the name of its clients in the broker's logs and quotas.
    `requests`: how many requests its clients have sent, by the name of the API.

    Raises:
        BadInputError: `bootstrap` is not a list of addresses.
    """

    bootstrap: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request_timeout_ms: int = REQUEST_TIMEOUT_MS
    settings: Security = field(default_factory=Security, repr=False)
    client_id: str = "snapkafka"
    requests: Counter[str] = field(default_factory=Counter, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bootstrap", ",".join(map(str, addresses(self.bootstrap))))

    @property
    def hosts(self) -> list[str]:
        return self.bootstrap.split(",")

    def client_settings(self) -> dict[str, Any]:
        """Return the keyword arguments for any aiokafka client."""
        return {
            "bootstrap_servers": self.hosts,
            "client_id": self.client_id,
            "request_timeout_ms": self.request_timeout_ms,
            **self.security,
        }

    @classmethod
    def from_environment(cls, bootstrap: str, environ: Mapping[str, str]) -> Connection:
        """Make a connection with the settings of `SNAPKAFKA_KAFKA_CONFIG` and `SNAPKAFKA_KAFKA_*`: see `Security`.

        Raises:
            BadInputError, MechanismError, CertificateError: one of them is invalid.
        """
        return cls.secured(bootstrap, Security.from_environment(environ))

    @classmethod
    def secured(cls, bootstrap: str, settings: Security) -> Connection:
        """Make a connection with settings that each client library gets in its own form."""
        return cls(bootstrap=bootstrap, security=settings.for_aiokafka(), settings=settings)


#: The cluster cannot be reached, or does not answer.
_ABSENT: Final = (
    errors.KafkaConnectionError,
    errors.NodeNotReadyError,
    errors.RequestTimedOutError,
    errors.KafkaTimeoutError,
    errors.StaleMetadata,
    errors.NotEnoughReplicasError,
    errors.NotEnoughReplicasAfterAppendError,
    OSError,
)
_FORBIDDEN: Final = (
    errors.TopicAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.ClusterAuthorizationFailedError,
)


class translated:  # noqa: N801 -- it is used as a function
    """A context that translates the failures of the client library; `async with` asks the broker why it refuses.

    aiokafka shows no difference between an unavailable broker, wrong credentials and an untrusted certificate. After a
    failure, `async with` tries one connection by itself to find the reason: see `diagnose`.

    Args:
        what: the work in progress, as in "could not {what}".

    Raises:
        BrokerUnavailableError: no broker answers. AuthenticationError, MechanismError, CertificateError: the broker
            refuses the login.
        LedgerUnusableError: a right is missing, or the broker refuses for another reason.
    """

    def __init__(self, connection: Connection, what: str) -> None:
        self._connection = connection
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, Exception) and (ours := _named(self._connection, self._what, error)):
            raise ours from error

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if not isinstance(error, Exception) or not (ours := _named(self._connection, self._what, error)):
            return
        if type(ours) is BrokerUnavailableError:
            ours = await diagnose(self._connection.bootstrap, self._connection.security, self._what) or ours
        raise ours from error


def _named(connection: Connection, what: str, error: Exception) -> SnapkafkaError | None:
    """Translate a failure to one of our errors; None: it stays as it is."""
    if isinstance(error, SnapkafkaError):
        return None
    if isinstance(error, _FORBIDDEN):
        return LedgerUnusableError(
            f"not allowed to {what}: {_one_line(error)}",
            hint="see docs/reference/ledger.md for the rights that it needs",
        )
    if refused := refusal(connection.bootstrap, error):
        return refused
    if isinstance(error, _ABSENT):
        return BrokerUnavailableError(f"no Kafka broker answers at {connection.bootstrap}: could not {what}")
    if isinstance(error, errors.KafkaError):
        return LedgerUnusableError(f"could not {what}: {_one_line(error)}", hint="see the broker's log")
    if isinstance(error, ValueError):
        # The client library's word on settings that cannot be combined.
        return BadInputError(f"could not {what}: {error}", hint="check the security settings")
    return None


def _one_line(error: errors.KafkaError) -> str:
    """Return the reason of the broker, then the name of its error once."""
    name, said = type(error).__name__, " ".join(" ".join(map(str, error.args)).split())
    return f"{said[:REASON_LENGTH]} ({name})" if said else name


#: A client has tried for seconds before: a person waits about ten in all.
ANSWER_S: Final = 2.5
SETTING: Final = "set SNAPKAFKA_KAFKA_SECURITY_PROTOCOL to that of this listener"


async def diagnose(hosts: str, security: Mapping[str, Any], what: str) -> SnapkafkaError | None:
    """Log in to the brokers as a client would that could not do `what`, and return why the first that lets nobody in
    does not, or that one answers. None: the brokers are unavailable, or the reason is unknown."""
    given = {name: value for name, value in security.items() if value is not None}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ANSWER_S):
            for where in addresses(hosts):
                tried = None
                try:
                    tried = await create_conn(*where, request_timeout_ms=int(ANSWER_S * 1000), **given)
                    if (await tried.send(MetadataRequest([]))).brokers:
                        return BrokerUnavailableError(
                            f"could not {what} in time, though the broker at {where} answers",
                            hint="it is slow, too few replicas are in sync (min.insync.replicas), a partition has no"
                            " leader, or advertised.listeners names an address that cannot be reached from here",
                        )
                    raise errors.KafkaConnectionError("it answers nothing to a client without a login")
                except Exception as error:
                    if found := refusal(str(where), error):
                        return found
                    if tried is not None and given.get("sasl_mechanism") == "OAUTHBEARER":
                        # The broker answers a bad token in a way that the client library takes for a success.
                        return AuthenticationError(
                            f"the broker at {where} does not accept this token",
                            hint="is it expired, or for somebody else?",
                        )
                    if not isinstance(error, OSError | TimeoutError | errors.KafkaError):
                        raise
                finally:
                    if tried is not None:
                        tried.close()
    return None


def refusal(where: str, error: BaseException) -> SnapkafkaError | None:
    """Translate a failure that shows that the broker refuses us, or what caused it; None for any other."""
    reason = " ".join(str(error.args[0] if error.args and error.args[0] else "").split())[:200]
    match error:
        case SnapkafkaError():
            return error
        case errors.UnsupportedSaslMechanismError() | errors.AuthenticationMethodNotSupported():
            return MechanismError(f"the broker at {where} does not accept this sasl.mechanism: {reason}")
        case errors.AuthenticationFailedError() | errors.SaslAuthenticationFailed():
            return AuthenticationError(f"the broker at {where} refuses these credentials: {reason}")
        case ssl.SSLCertVerificationError():
            return CertificateError(
                f"the certificate of the broker at {where} is not trusted: {error.verify_message}",
                hint="ssl.ca.location names the CA that signed it; its names must have the host of that address",
            )
        case ssl.SSLError():
            return _of_tls(where, error)
        case socket.gaierror():
            return BrokerUnavailableError(
                f"no host of the name in {where} is known",
                hint="check --bootstrap; a name may be known in another network only",
            )
    # Errors of the package gssapi, which need not be installed; aiokafka lets them through.
    if any(kind.__module__.split(".")[0] == "gssapi" for kind in type(error).__mro__):
        return AuthenticationError(
            f"Kerberos has no ticket for the broker at {where}: {reason}",
            hint="run `kinit`, or let KRB5_CLIENT_KTNAME name a keytab; sasl.kerberos.service.name is the broker's",
        )
    return refusal(where, error.__cause__) if error.__cause__ is not None else None


def _of_tls(where: str, error: ssl.SSLError) -> SnapkafkaError:
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if any(words in reason for words in ("certificate", "handshake failure", "unknown ca")):
        return CertificateError(
            f"the broker at {where} refuses the certificate of this client: {reason}",
            hint="set ssl.certificate.location and ssl.key.location to a pair that its CA has signed",
        )
    return BrokerUnavailableError(f"the broker at {where} does not speak TLS: {reason}", hint=SETTING)
