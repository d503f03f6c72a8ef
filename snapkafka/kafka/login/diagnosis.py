"""Diagnosis of a refused login: the reasons that a client library does not pass on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final

from aiokafka import errors
from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from snapkafka.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    CertificateError,
    MechanismError,
    SnapkafkaError,
)

from .addresses import addresses

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
                            hint="too few replicas are in sync (min.insync.replicas), a partition has no leader, or"
                            " advertised.listeners names an address that cannot be reached from here",
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
