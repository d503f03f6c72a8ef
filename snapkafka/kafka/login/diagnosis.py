"""Diagnosis of a refused login: the reasons that a client library does not pass on.

It makes one connection as a client would: TCP, TLS, the SASL handshake, the password. Each of these fails in its own
way, and each failure has its own name here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aiokafka import errors
from aiokafka.conn import create_conn

from snapkafka.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    CertificateError,
    MechanismError,
    Option,
    SnapkafkaError,
)
from snapkafka.kafka.cluster.requests import Metadata

from .addresses import Address, addresses

#: All brokers named are asked within this time at the most, ...
ANSWER_S: Final = 5.0
#: ... and within what a client that tried before has left of this; ...
GIVEN_UP_AFTER_S: Final = 10.0
#: ... but for as long as a broker that does answer takes.
LEAST_S: Final = 1.0
#: A broker that can be reached takes a connection within this time.
CONNECTS_WITHIN_S: Final = 0.8
#: ApiVersions v0 with a correlation id and no client id: the one request that is answered before anyone has logged in.
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def refusal(where: str, error: BaseException) -> SnapkafkaError | None:
    """Translate a failure that shows that the broker refuses us; None for any other."""
    if isinstance(error, errors.UnsupportedSaslMechanismError | errors.AuthenticationMethodNotSupported):
        enabled = str(error).partition("Enabled mechanisms are: ")[2]
        return MechanismError(
            f"the broker at {where} does not accept this sasl.mechanism"
            + (f", only {enabled.strip('[] ')}" if enabled else ""),
        )
    if isinstance(error, errors.AuthenticationFailedError | errors.SaslAuthenticationFailed):
        return AuthenticationError(f"the broker at {where} refuses these credentials{_reason(error)}")
    if _of_kerberos(error):
        return AuthenticationError(
            f"Kerberos has no ticket for the broker at {where}{_reason(error)}",
            hint="`kinit`, or KRB5_CLIENT_KTNAME names a keytab; sasl.kerberos.service.name is the broker's",
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateError(
            f"the certificate of the broker at {where} is not trusted: {error.verify_message}",
            hint="ssl.ca.location names the CA that signed it; its names must have the host of that address",
        )
    if isinstance(error, ssl.SSLError):
        return _of_tls(where, error)
    return None


async def diagnose(
    hosts: Iterable[str], security: Mapping[str, Any], *, tried_s: float = 0.0
) -> SnapkafkaError | None:
    """Try to connect to each broker named, and return why the first that lets nobody in does not.

    None: the brokers are unavailable, or the reason is unknown. `tried_s`: for how many seconds a client has tried in
    vain before.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(LEAST_S, min(ANSWER_S, GIVEN_UP_AFTER_S - tried_s))):
            for address in addresses(",".join(hosts)):
                if found := await _why(security, address):
                    return found
    return None


async def _why(security: Mapping[str, Any], where: Address) -> SnapkafkaError | None:
    host, port = where
    settings = {name: value for name, value in security.items() if value is not None}
    protocol = str(settings.get("security_protocol", "PLAINTEXT"))
    try:
        # With TLS 1.3 a client without a certificate learns of it by the first answer that it reads.
        await _first_answer(host, port, settings.get("ssl_context") if protocol.endswith("SSL") else None)
    except ssl.SSLError as error:
        return refusal(str(where), error)
    except (EOFError, ConnectionResetError, ConnectionAbortedError):
        return _of_protocol(where, protocol)
    except socket.gaierror:
        return BrokerUnavailableError(
            f"the host {host} is unknown",
            hint=("check ", Option("bootstrap"), "; a name may be known in another network only"),
        )
    except OSError:
        return None
    try:
        tried = await create_conn(
            host, port, request_timeout_ms=int(ANSWER_S * 1000), client_id="snapkafka", **settings
        )
    except SnapkafkaError as error:
        return error
    except (OSError, TimeoutError, errors.KafkaError) as error:
        return refusal(str(where), error)
    except Exception as error:
        if _of_kerberos(error):
            return refusal(str(where), error)
        raise
    try:
        if brokers := (await tried.send(Metadata([], False, False))).brokers:
            return await _unreachable(where, [Address(each.host, each.port) for each in brokers])
    except (errors.KafkaError, ValueError, struct.error):
        pass
    finally:
        tried.close()
    if settings.get("sasl_mechanism") == "OAUTHBEARER":
        # The broker answers a bad token in a way that the client library takes for a success.
        return AuthenticationError(
            f"the broker at {where} does not accept this token", hint="is it expired, or for somebody else?"
        )
    return _of_protocol(where, protocol)  # a login is missing


async def _first_answer(host: str, port: int, context: ssl.SSLContext | None) -> None:
    """Wait for the first bytes of an answer; raise EOFError if the connection is closed instead."""
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(API_VERSIONS)
        await writer.drain()
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        if not 0 < size < 1_000_000:  # not Kafka: the start of a TLS alert, or of another protocol
            raise EOFError
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _unreachable(where: Address, advertised: Sequence[Address]) -> SnapkafkaError | None:
    """Return that no broker can be reached at the address that it gives itself, if that is so. Clients use the address
    of the bootstrap servers only to ask for the others."""
    found = await asyncio.gather(*map(_connects, advertised))
    if any(found):
        return None
    return BrokerUnavailableError(
        f"the broker at {where} answers and gives {', '.join(map(str, advertised))} as its address, which cannot be"
        " reached",
        hint="set advertised.listeners of the broker to an address that is reachable from here",
    )


async def _connects(address: Address) -> bool:
    try:
        async with asyncio.timeout(CONNECTS_WITHIN_S):
            _, writer = await asyncio.open_connection(*address)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _of_kerberos(error: BaseException) -> bool:
    """Return whether it is an error of the package gssapi, which need not be installed. aiokafka lets it through."""
    return any(kind.__module__.split(".")[0] == "gssapi" for kind in type(error).__mro__)


def _of_protocol(where: Address, protocol: str) -> SnapkafkaError:
    return BrokerUnavailableError(
        f"the broker at {where} closes connections of security.protocol {protocol}",
        hint="set SNAPKAFKA_KAFKA_SECURITY_PROTOCOL to that of this listener",
    )


def _of_tls(where: str, error: ssl.SSLError) -> SnapkafkaError:
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "certificate" in reason or "handshake failure" in reason:
        return CertificateError(
            f"the broker at {where} refuses the certificate of this client: {reason}",
            hint="set ssl.certificate.location and ssl.key.location to a pair that its CA has signed",
        )
    if "unknown ca" in reason:
        return CertificateError(
            f"the broker at {where} does not know the CA of this client's certificate",
            hint="set ssl.certificate.location to one that its CA has signed",
        )
    return BrokerUnavailableError(
        f"the broker at {where} does not speak TLS: {reason}",
        hint="set SNAPKAFKA_KAFKA_SECURITY_PROTOCOL to that of this listener",
    )


def _reason(error: Any) -> str:
    text = " ".join(str(error.args[0] if error.args and error.args[0] else "").split())
    return f": {text[:200]}" if text else ""
