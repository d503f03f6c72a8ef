"""uvicorn with bounds that it does not have by itself: a client that sends the head of a request slowly is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from snapkafka.errors import BadInputError

from .guard import App
from .settings import Settings

__all__ = ["serve"]

logger = logging.getLogger("snapkafka")

#: A request line and headers take no more.
HEAD_BYTES_MAX: Final = 16 * 1024
#: A connection on which nothing is asked for is closed.
KEEP_ALIVE_S: Final = 15
#: Streams are cut off then when the service stops.
STOP_WITHIN_S: Final = 3


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 whose connections are closed where no whole head of a request comes within `header_s`."""

    def __init__(self, *args: Any, header_s: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._header_s = header_s
        self._expiry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Give the next head its time; while a request is answered nothing is awaited."""
        if self._busy():
            self._unwatch()
        elif self._expiry is None:
            self._expiry = self.loop.call_later(self._header_s, self._expire)

    def _unwatch(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _expire(self) -> None:
        self._expiry = None
        if not self._busy():
            self.transport.close()


async def serve(app: App, settings: Settings, started: Callable[[str], None]) -> None:
    """Serve until this task is cancelled.

    Args:
        started: hears the URL once the socket is open.

    Raises:
        BadInputError: the address cannot be listened on, or the certificate cannot be used.
    """
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=partial(BoundedProtocol, header_s=settings.header_s),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who says that it speaks for others is still one client
        date_header=True,
        limit_concurrency=settings.connections_max,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        ssl_certfile=settings.certificate or None,
        ssl_keyfile=settings.key or None,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise BadInputError(
            f"the certificate cannot be used: {error}", hint="check --tls-certificate"
        ) from error
    try:
        listening = config.bind_socket()
    except SystemExit:
        raise BadInputError(
            f"--host {settings.host} --port {settings.port} cannot be listened on", hint="choose another port"
        ) from None
    # asyncio does that for sockets of its own alone: without, half of an answer waits for the client's next packet
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
    server = _Server(config, lambda: started(url))
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.wait([serving])


class _Server(uvicorn.Server):
    """Leaves signals to the command, which cancels the task; shows when it listens."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._told = started

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._told()

    def install_signal_handlers(self) -> None:
        pass

    def capture_signals(self) -> Any:

        return contextlib.nullcontext()
