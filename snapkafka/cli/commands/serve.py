"""`snapkafka serve`: REST, gRPC and the page."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import msgspec

from snapkafka.cli.running import connect, notices, run
from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Serve, Where

if TYPE_CHECKING:
    from snapkafka.service.access import FileTokens, Tokens


def serve(at: Where, asked: Serve) -> None:
    async def work() -> None:
        require_extra("service", "the service")
        from snapkafka.config import namespace_problem
        from snapkafka.service.app import make_app
        from snapkafka.service.server import serve as serve_app
        from snapkafka.service.settings import Settings

        if problem := namespace_problem(at.namespace):
            raise BadInputError(problem, hint="give --namespace, or set SNAPKAFKA_NAMESPACE")
        settings = Settings(**msgspec.structs.asdict(asked) | {"tokens": _tokens(asked.tokens)})
        settings.validate()
        connection = connect(at.bootstrap)
        app = make_app(connection, at.namespace, settings)
        async with AsyncExitStack() as stack:
            if asked.grpc_port is not None:
                from snapkafka.service.grpc_server import serving_grpc

                address = await stack.enter_async_context(serving_grpc(connection, at.namespace, settings))
                notices.print(f"serving {at.namespace} by gRPC on {address}")
            await serve_app(app, settings, lambda url: notices.print(f"serving {at.namespace} on {url}"))

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
