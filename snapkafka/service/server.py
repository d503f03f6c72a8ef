"""uvicorn, with a time limit for a request that does not come, and for a TLS handshake."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from snapkafka.errors import BadInputError

from .settings import Settings

#: Of the head of a request, and of all of it: a body above `BODY_BYTES_MAX` is refused by name before.
HEAD_BYTES_MAX: Final = 16 * 1024
REQUEST_BYTES_MAX: Final = 1024 * 1024
#: So many files are wanted; others than connections: Kafka, storage, queries, jobs.
FILES_MAX: Final = 16_384
FILES: Final = resource.RLIMIT_NOFILE
OTHER_FILES: Final = 256
#: Streams are cut off then when the service stops.
STOP_WITHIN_S: Final = 3


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose connections are closed if no whole request comes within `header_s`."""

    def __init__(self, *args: Any, header_s: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._header_s = header_s
        self._expiry: asyncio.TimerHandle | None = None
        self._bytes, self._bytes_max = 0, HEAD_BYTES_MAX  # of a request that is not whole yet

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        super().data_received(data)
        if self._bytes:
            self._watch()
        if self._bytes > self._bytes_max and not self.transport.is_closing():
            self.send_400_response("The request is too large.")

    def on_headers_complete(self) -> None:
        self._bytes_max = REQUEST_BYTES_MAX
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._bytes, self._bytes_max = 0, HEAD_BYTES_MAX
        self._unwatch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the time of a request that is not whole; uvicorn closes what is idle after an answer."""
        if self._expiry is None:
            self._expiry = self.loop.call_later(self._header_s, self.transport.abort)

    def _unwatch(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


def connections_max() -> int:
    """Raise the limit of open files as far as it may be; return how many connections REST and gRPC may each have."""
    soft, hard = (FILES_MAX if it == resource.RLIM_INFINITY else it for it in resource.getrlimit(FILES))
    most = min(FILES_MAX, max(soft, hard))
    if soft < most:
        resource.setrlimit(FILES, (most, resource.getrlimit(FILES)[1]))
    return max(1, (most - OTHER_FILES) // 2)


def server_context(settings: Settings) -> ssl.SSLContext | None:
    """Create the context of TLS; None: there is none.

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
            f"the certificate cannot be used: {error}", hint="check --tls-certificate"
        ) from error
    return context


async def serve(app: ASGIApp, settings: Settings, started: Callable[[str], None]) -> None:
    """Serve until this task is cancelled.

    Args:
        started: called with the URL once the socket is open.

    Raises:
        BadInputError: the address is unavailable, or the certificate is unusable.
    """
    context = server_context(settings)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # a client can cause the others at will
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who says that it speaks for others is still one client
        limit_concurrency=connections_max(),
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    try:
        listening = config.bind_socket()
    except SystemExit:
        where = f"--host {settings.host} --port {settings.port}"
        raise BadInputError(f"{where} cannot be listened on", hint="choose another port") from None
    # asyncio does that for sockets of its own alone: without, half of an answer waits for the client's next packet
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
    server = _Server(config)
    server.listening, server.context, server.header_s = listening, context, settings.header_s
    server.on_start = lambda: started(url)
    serving = asyncio.ensure_future(server.serve(sockets=[]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.wait([serving])


class _Server(uvicorn.Server):
    """A server that leaves signals to the command, which cancels the task, and shows when it listens."""

    listening: socket.socket
    context: ssl.SSLContext | None
    header_s: float
    on_start: Callable[[], None]

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        made = partial(
            BoundedProtocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            header_s=self.header_s,
        )
        # `backlog`: asyncio accepts, and logs failures, so many times in a row
        accepting = asyncio.get_running_loop().create_server(
            made,
            sock=self.listening,
            ssl=self.context,
            ssl_handshake_timeout=self.header_s if self.context else None,
            backlog=1,
        )
        self.servers.append(await accepting)
        self.listening.listen(socket.SOMAXCONN)
        gc.freeze()  # a full collection visits what is there by now for 40 ms, and none of it goes
        self.on_start()

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()
