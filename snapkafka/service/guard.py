"""Bounds of every request, before a route sees it: host, token, rate, size and time; and the headers of every answer.

Plain ASGI: everything that is read, counted or kept is bounded, so that a misbehaving client costs a connection for a
few seconds and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Final

from snapkafka.runtime.browsers import foreign, is_loopback

from .access import Role
from .problems import PROBLEM_JSON, RefusedError, problem_body
from .settings import Settings

logger = logging.getLogger("snapkafka")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Of every answer. The page has scripts and styles of its own alone, and speaks to nobody else.
SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
#: A request line and headers have no more.
HEAD_BYTES_MAX: Final = 16 * 1024
#: A burst may have so many times what is allowed in a second.
BURST: Final = 10
#: So many clients are distinguished; of those beyond, the one that was quiet longest is forgotten.
CLIENTS_MAX: Final = 10_000
#: After these refusals the rest of the request may still come: the connection is closed. After others it stays open, so
#: that a client that is throttled costs no further handshake.
LAST: Final = frozenset({"too-large", "too-slow"})
#: What anyone may ask for: whether the service lives, and the page, which holds no data.
OPEN: Final = frozenset({"/healthz", "/readyz", "/", "/openapi.yaml"})
OPEN_BELOW: Final = "/page/"


class Rates:
    """Token buckets, one per client: `per_s` on average, `per_s * BURST` at once."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._clock = per_s, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token; return 0.0, or the seconds until there is one again."""
        now, most = self._clock(), max(1.0, self._per_s * BURST)
        left, since = self._left.pop(client, (most, now))
        left = min(most, left + (now - since) * self._per_s)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_s
        self._left[client] = (left if wait else left - 1, now)
        if len(self._left) > CLIENTS_MAX:
            self._left.popitem(last=False)
        return wait


class Guard:
    """An ASGI application that passes requests within the bounds.

    Args:
        app: the guarded application; it finds the role of its client in `scope["state"]["role"]`.
        needed: the role that a path and a method need.
    """

    def __init__(self, app: App, settings: Settings, needed: Callable[[str, str], Role]) -> None:
        self._app, self._settings, self._needed = app, settings, needed
        self._reads, self._writes = Rates(settings.reads_per_s), Rates(settings.triggers_per_s)
        self._names = {name.lower().strip("[]") for name in settings.host_names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket: nothing here speaks that
            await send({"type": "websocket.close", "code": 1003})
            return
        answer = _Answer(send, self._settings.write_s)
        try:
            role = self._admit(scope)
            scope.setdefault("state", {})["role"] = role
            body = _Body(receive, self._settings)
            body.require_small(_header(scope, b"content-length"))
            await self._app(scope, body.receive, answer.send)
        except RefusedError as error:
            await answer.refuse(error)
        except _ClientGoneError:
            logger.info(
                "snapkafka: a client read nothing for %g s and was disconnected", self._settings.write_s
            )
            raise asyncio.CancelledError from None

    def _admit(self, scope: Scope) -> Role:
        path, method = scope["path"], scope["method"]
        self._require_host(scope)
        if (size := _head_bytes(scope)) > HEAD_BYTES_MAX:
            raise RefusedError("too-large", f"the head has {size:,} bytes, above {HEAD_BYTES_MAX:,}")
        client = (scope.get("client") or ("", 0))[0]
        if path in OPEN or path.startswith(OPEN_BELOW):
            self._pace(self._reads, client)
            return Role.READ
        role, client = self._role(scope, client)
        needed = self._needed(path, method)
        if role < needed:
            raise RefusedError(
                "forbidden",
                f"this needs the role {needed.name.lower()}, the token has {role.name.lower()}",
                "use a token with that role",
            )
        self._pace(self._reads if needed is Role.READ else self._writes, client)
        return role

    def _role(self, scope: Scope, client: str) -> tuple[Role, str]:
        """Return the role of a client, and its identification."""
        if not self._settings.tokens:
            return Role.ADMIN, client
        scheme, _, token = _header(scope, b"authorization").partition(" ")
        role = self._settings.tokens.role(token.strip()) if scheme.lower() == "bearer" else None
        if role is None:
            self._pace(self._writes, client)  # guesses are few
            raise RefusedError(
                "unauthorized",
                "a valid token is needed",
                "send Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return role, f"{client} {role.name}"

    def _require_host(self, scope: Scope) -> None:
        """Refuse what a foreign page may have sent."""
        names = self._names
        if not is_loopback(
            self._settings.host
        ):  # tokens and TLS guard the address to which the client has connected
            names = names | {(scope.get("server") or ("",))[0]}
        if why := foreign(_header(scope, b"host"), _header(scope, b"origin"), names=names):
            raise RefusedError("forbidden", why, "use the page of this service, by a name that it was given")

    @staticmethod
    def _pace(rates: Rates, client: str) -> None:
        if wait := rates.take(client):
            raise RefusedError(
                "throttled",
                "too many requests of this client",
                "ask less often",
                headers={"Retry-After": str(max(1, round(wait)))},
            )


class _ClientGoneError(Exception):
    """A client that reads nothing."""


class _Answer:
    """A sender of an answer with the common headers; a client that reads nothing for `write_s` is given up."""

    def __init__(self, send: Send, write_s: float) -> None:
        self._send, self._write_s, self._began = send, write_s, False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._began = True
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [(n.encode(), v.encode()) for n, v in SECURITY_HEADERS.items() if n.encode() not in given]
            message["headers"] = [*message.get("headers", ()), *more]
        try:
            async with asyncio.timeout(self._write_s):
                await self._send(message)
        except TimeoutError:
            raise _ClientGoneError from None

    async def refuse(self, error: RefusedError) -> None:
        """Answer with a problem, unless another answer has begun."""
        if self._began:
            return
        closing = {"connection": "close"} if error.code in LAST else {}
        headers = {"content-type": PROBLEM_JSON} | closing | error.headers
        body = problem_body(error.code, error.status, error.message, error.hint)
        headers["content-length"] = str(len(body))
        await self.send(
            {
                "type": "http.response.start",
                "status": error.status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await self.send({"type": "http.response.body", "body": body})


class _Body:
    """A receiver of a body of bounded size, in bounded time."""

    def __init__(self, receive: Receive, settings: Settings) -> None:
        self._receive, self._most, self._within_s = receive, settings.body_bytes_max, settings.header_s
        self._got, self._whole, self._since = 0, False, 0.0

    def require_small(self, declared: str) -> None:
        if declared.isascii() and declared.isdigit() and int(declared[:19]) > self._most:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._whole:  # only that the client has gone can come now: for that it may wait for ever
            return await self._receive()
        loop = asyncio.get_running_loop()
        self._since = self._since or loop.time()
        try:
            async with asyncio.timeout_at(self._since + self._within_s):
                message = await self._receive()
        except TimeoutError:
            raise RefusedError("too-slow", f"the body did not come within {self._within_s:g} s") from None
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._got > self._most:
                raise self._too_large()
        return message

    def _too_large(self) -> RefusedError:
        return RefusedError("too-large", f"the body has more than {self._most:,} bytes")


def _head_bytes(scope: Scope) -> int:
    """Count the bytes of a request line and its headers, without separators."""
    line = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    return line + sum(len(name) + len(value) for name, value in scope["headers"])


def _header(scope: Scope, name: bytes) -> str:
    found: Iterable[bytes] = (value for given, value in scope["headers"] if given == name)
    return next(iter(found), b"").decode("latin-1")
