"""TLS of the service: certificate and key are read again when their files change, by REST and gRPC alike."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import BadInputError, Option
from snapkafka.runtime.renewal import Renewed, RenewedContext

from .settings import Settings

WHAT: Final = "the certificate of the service"


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """Create the context of REST; None: it has no TLS.

    Raises:
        BadInputError: the certificate is unusable.
    """
    if not settings.certificate:
        return None
    try:
        return RenewedContext.of(WHAT, _paths(settings), lambda: _context(settings))
    except OSError as error:  # ssl.SSLError is one
        raise BadInputError(
            f"the certificate cannot be used: {error}", hint=("check ", Option("tls-certificate"))
        ) from error


def grpc_credentials(settings: Settings) -> Any:
    """Create the credentials of gRPC.

    Raises:
        OSError: the certificate is unusable.
    """
    import grpc

    def read() -> Any:
        _context(settings)  # gRPC itself would take a broken pair
        pair = Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes()
        return grpc.ssl_server_certificate_configuration([pair])

    renewed = Renewed(WHAT, _paths(settings), read)
    return grpc.dynamic_ssl_server_credentials(renewed.get(), renewed.get)


def _paths(settings: Settings) -> tuple[str, str]:
    return settings.certificate, settings.key


def _context(settings: Settings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")
    return context
