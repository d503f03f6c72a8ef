"""uvicorn with additional bounds: a client that sends the head of a request slowly is disconnected."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from snapkafka.errors import BadInputError, Option

from .accepting import Acceptor, Connections, Place, Use, connections_within_limits
from .guard import HEAD_BYTES_MAX, SECURITY_HEADERS, App, Receive, Scope, Send
from .problems import PROBLEM_JSON, RefusedError, problem, problem_body
from .settings import Settings
from .tls import server_context

logger = logging.getLogger("snapkafka")

RAW_SECURITY_HEADERS: Final = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
#: A connection on which nothing is asked for is closed.
KEEP_ALIVE_S: Final = 15
#: A client whose connection is refused has so long to send a request.
FULL_HEADER_S: Final = 1.0
#: Streams are cut off then when the service stops.
STOP_WITHIN_S: Final = 3


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 whose connections are closed if no complete head of a request comes within `header_s`.

    A connection above the bound (`accepting`) gets a 503, and has a second for its head. Requests that are not HTTP
    get a problem, too.
    """

    def __init__(self, *args: Any, header_s: float, place: Place, **more: Any) -> None:
        super().__init__(*args, **more)
        self._header_s, self._place = header_s, place
        self._expiry: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self._place.use is Use.REFUSED:
            self.app, self._header_s = _full, min(self._header_s, FULL_HEADER_S)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # another answer has begun
            self.transport.close()
            return
        body = problem_body("bad-input", 400, msg, "see RFC 9112")
        kind = [(b"content-type", PROBLEM_JSON.encode()), (b"connection", b"close")]
        headers = [*kind, (b"content-length", str(len(body)).encode()), *RAW_SECURITY_HEADERS]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        self._place.release()
        super().connection_lost(exc)

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Start the time of the next head; none runs while a request is answered."""
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


async def _full(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer on a connection above the bound."""
    refused = RefusedError(
        "busy",
        "too many connections are open",
        "use fewer, or keep one open",
        headers={"Connection": "close"},
    )
    answer = problem(refused)
    answer.headers.update(SECURITY_HEADERS)
    await answer(scope, receive, send)


async def serve(app: App, settings: Settings, started: Callable[[str], None]) -> None:
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
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who says that it speaks for others is still one client
        date_header=True,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    config.load()
    try:
        listening = config.bind_socket()
    except SystemExit:
        raise BadInputError(
            (
                Option("host", settings.host),
                " ",
                Option("port", str(settings.port)),
                " cannot be listened on",
            ),
            hint="choose another port",
        ) from None
    # asyncio does that for sockets of its own alone: without, half of an answer waits for the client's next packet
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    scheme = "https" if settings.certificate else "http"
    host, port = listening.getsockname()[:2]
    url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/"
    server = _Server(
        config,
        listening,
        context,
        settings.header_s,
        Connections(connections_within_limits(settings)),
        lambda: started(url),
    )
    serving = asyncio.ensure_future(server.serve(sockets=[]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.wait([serving])


class _Server(uvicorn.Server):
    """A server that accepts its connections by an `Acceptor`, leaves signals to the command, which cancels the task,
    and shows when it listens."""

    def __init__(
        self,
        config: uvicorn.Config,
        listening: socket.socket,
        context: ssl.SSLContext | None,
        header_s: float,
        connections: Connections,
        started: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._listening, self._header_s, self._on_start = listening, header_s, started
        self._acceptor = Acceptor(connections, self._protocol, context=context, handshake_s=header_s)
        self._accepting: asyncio.Task[None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._listening.setblocking(False)
            self._listening.listen(socket.SOMAXCONN)
            self._accepting = asyncio.create_task(self._acceptor.run(self._listening))
            self._on_start()

    async def shutdown(self, sockets: Any = None) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        await super().shutdown(sockets=sockets)

    def _protocol(self, place: Place) -> BoundedProtocol:
        return BoundedProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            header_s=self._header_s,
            place=place,
        )

    def install_signal_handlers(self) -> None:
        pass

    def capture_signals(self) -> Any:

        return contextlib.nullcontext()
