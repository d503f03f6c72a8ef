"""`snapkafka serve`: REST, gRPC and the page."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from snapkafka.cli.options import Bootstrap, Namespace
from snapkafka.cli.running import connect, notices, run
from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import require_extra

if TYPE_CHECKING:
    from snapkafka.service.access import FileTokens, Tokens


def serve(
    bootstrap: Bootstrap = None,
    namespace: Namespace = "",
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="Address to listen on. Others need TLS and tokens."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Port to listen on; 0: any free port.")
    ] = 8023,
    roots: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-root", metavar="URI", help="Allow tables and manifests below this URI. Repeatable."
        ),
    ] = None,
    tokens: Annotated[
        str,
        typer.Option(
            "--tokens", metavar="FILE", help="Lines ROLE:TOKEN with role `read`, `trigger` or `admin`."
        ),
    ] = "",
    certificate: Annotated[
        str, typer.Option("--tls-certificate", metavar="FILE", help="Certificate with its chain, as PEM.")
    ] = "",
    key: Annotated[str, typer.Option("--tls-key", metavar="FILE", help="Private key, as PEM.")] = "",
    host_names: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name", metavar="NAME", help="Host name by which clients reach the service. Repeatable."
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option("--grpc-port", metavar="PORT", help="Also serve gRPC on this port; 0: any free port."),
    ] = None,
    foreign_topics: Annotated[
        list[str] | None,
        typer.Option(
            "--foreign-topic", metavar="NAME", help="Topic that gRPC processes may send to. Repeatable."
        ),
    ] = None,
    foreign_inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--foreign-input", metavar="NAME", help="Topic that gRPC processes may read. Repeatable."
        ),
    ] = None,
) -> None:
    """Serve the REST API, gRPC and a web page.

    The service stores nothing, so any number can run.
    """

    async def work() -> None:
        require_extra("service", "the service")
        from snapkafka.config import namespace_problem
        from snapkafka.service.app import make_app
        from snapkafka.service.server import serve as serve_app
        from snapkafka.service.settings import Settings

        if problem := namespace_problem(namespace):
            raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
        settings = Settings(
            host=host,
            port=port,
            certificate=certificate,
            key=key,
            tokens=_tokens(tokens),
            roots=tuple(roots or ()),
            host_names=tuple(host_names or ()),
            grpc_port=grpc_port,
            foreign_topics=tuple(foreign_topics or ()),
            foreign_inputs=tuple(foreign_inputs or ()),
        )
        settings.validate()
        connection = connect(bootstrap)
        app = make_app(connection, namespace, settings)
        async with AsyncExitStack() as stack:
            if grpc_port is not None:
                from snapkafka.service.grpc_server import serving_grpc

                address = await stack.enter_async_context(serving_grpc(connection, namespace, settings))
                notices.print(f"serving {namespace} by gRPC on {address}")
            await serve_app(app, settings, lambda url: notices.print(f"serving {namespace} on {url}"))

    run(work, as_json=False)


def _tokens(path: str) -> Tokens | FileTokens:
    """Return the tokens of a file or of the environment, where there are any."""
    from snapkafka.service.access import FileTokens, Tokens

    if not path:
        text = os.environ.get("SNAPKAFKA_SERVICE_TOKENS", "")
        return Tokens.parse(text, "SNAPKAFKA_SERVICE_TOKENS") if text else Tokens()
    try:
        return FileTokens(path)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"--tokens {path} cannot be read: {error}", hint="check the path") from error
