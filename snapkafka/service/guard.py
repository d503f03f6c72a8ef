"""What every request passes before a route sees it: host, origin and token; and the headers of every answer.

A flood from beyond this machine is the work of a proxy in front; here connections, heads, bodies, queries and streams
are bounded.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Role, foreign, is_loopback
from .problems import RefusedError, problem
from .settings import Settings

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
#: What anyone may ask for: whether the service lives, and the page, which holds no data.
OPEN: Final = frozenset({"/healthz", "/readyz", "/", "/openapi.json"})
OPEN_BELOW: Final = "/page/"


class Guard:
    """An ASGI application that passes on what its client may ask for.

    Args:
        app: the guarded application, which finds the role of its client in `scope["state"]["role"]`.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings
        self._names = {name.lower().strip("[]") for name in settings.host_names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            scope.setdefault("state", {})["role"] = self._admit(scope, Headers(scope=scope))
        except RefusedError as error:
            await problem(error)(scope, receive, answer)
        else:
            await self._app(scope, receive, answer)

    def _admit(self, scope: Scope, headers: Headers) -> Role:
        """Return the role of a client.

        Raises:
            RefusedError: a foreign page may have sent the request, or its token is unknown.
        """
        names = self._names
        if not is_loopback(self._settings.host):  # then tokens and TLS guard its own address
            names = names | {(scope.get("server") or ("",))[0]}
        if why := foreign(headers.get("host", ""), headers.get("origin", ""), names=names):
            raise RefusedError("forbidden", why, "use the page of this service, by a name that it was given")
        path = scope["path"]
        if path in OPEN or path.startswith(OPEN_BELOW):
            return Role.READ
        if not self._settings.tokens:
            return Role.ADMIN
        role = self._settings.tokens.bearer(headers.get("authorization", ""))
        if role is None:
            raise RefusedError(
                "unauthorized",
                "a valid token is needed",
                "send Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return role
