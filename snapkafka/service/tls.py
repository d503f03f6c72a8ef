"""TLS of the service: certificate and key, read at start, for REST and gRPC alike."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from snapkafka.errors import BadInputError, Option

from .settings import Settings


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """Create the context of REST; None: it has no TLS.

    Raises:
        BadInputError: the certificate is unusable.
    """
    if not settings.certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")
    except OSError as error:  # ssl.SSLError is one
        raise BadInputError(
            f"the certificate cannot be used: {error}", hint=("check ", Option("tls-certificate"))
        ) from error
    return context


def grpc_credentials(settings: Settings) -> Any:
    """Create the credentials of gRPC.

    Raises:
        BadInputError: the certificate is unusable.
        OSError: it cannot be read.
    """
    import grpc

    server_context(settings)  # gRPC itself would take a broken pair
    pair = Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes()
    return grpc.ssl_server_credentials([pair])
