"""`snapkafka serve`: REST, gRPC and the page."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import Annotated

import msgspec
import typer

from snapkafka.cli.running import connect, notices, run
from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import require_extra
from snapkafka.service.access import FileTokens, Tokens
from snapkafka.service.settings import Settings
from snapkafka.verbs import Where


def serve(
    at: Where,
    settings: Settings,
    tokens: Annotated[
        str,
        typer.Option(
            "--tokens", metavar="FILE", help="Lines ROLE:TOKEN with role `read`, `trigger` or `admin`."
        ),
    ] = "",
) -> None:
    """Serve the REST API, gRPC and a web page.

    The service stores nothing, so any number can run.
    """

    async def work() -> None:
        require_extra("service", "the service")
        from snapkafka.config import namespace_problem
        from snapkafka.service.app import make_app
        from snapkafka.service.server import serve as serve_app

        if problem := namespace_problem(at.namespace):
            raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
        chosen = msgspec.structs.replace(settings, tokens=_tokens(tokens))
        chosen.validate()
        connection = connect(at.bootstrap)
        app = make_app(connection, at.namespace, chosen)
        async with AsyncExitStack() as stack:
            if chosen.grpc_port is not None:
                from snapkafka.service.grpc_server import serving_grpc

                address = await stack.enter_async_context(serving_grpc(connection, at.namespace, chosen))
                notices.print(f"serving {at.namespace} by gRPC on {address}")
            await serve_app(app, chosen, lambda url: notices.print(f"serving {at.namespace} on {url}"))

    run(work, as_json=False)


def _tokens(path: str) -> Tokens | FileTokens:
    """Return the tokens of a file or of the environment, where there are any."""
    if not path:
        text = os.environ.get("SNAPKAFKA_SERVICE_TOKENS", "")
        return Tokens.parse(text, "SNAPKAFKA_SERVICE_TOKENS") if text else Tokens()
    try:
        return FileTokens(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--tokens {path} cannot be read: {error}", hint="check the path") from error
