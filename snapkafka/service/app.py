"""The service as one ASGI application: routes behind their bounds, and the ledger followed as long as it runs."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snapkafka.errors import InternalError, SnapkafkaError, TimedOutError, UnknownSnapshotError
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import RestorableEntry
from snapkafka.ops import freshness_in, gauges
from snapkafka.ports import Cluster
from snapkafka.units import wall_ms

from .access import Role, foreign, is_loopback
from .api import Route as Api
from .ledger_follower import LedgerFollower, Streams
from .problems import RefusedError, body_of, json_answer, problem, query_of
from .routes import ROUTES, Handlers, document
from .settings import Settings


def described() -> tuple[Any, ...]:
    """Create the metrics of the service, without values: requests, ledger followed, streams, snapshots."""
    kinds: tuple[tuple[Any, str, str, list[str]], ...] = (
        (CounterMetricFamily, "requests", "Requests by route and HTTP status", ["method", "route", "status"]),
        (GaugeMetricFamily, "ledger_followed", "1: the ledger is read to its end and followed", []),
        (GaugeMetricFamily, "streams", "Live streams", []),
        (GaugeMetricFamily, "snapshots", "Snapshots in the ledger by status", ["status"]),
    )
    return tuple(kind(f"snapkafka_service_{name}", text, labels=labels) for kind, name, text, labels in kinds)


class Metrics:
    """Counts since the start of the service, and gauges from the present fold."""

    def __init__(self, follower: LedgerFollower, streams: Streams) -> None:
        self._follower, self._streams = follower, streams
        self._kept: RestorableEntry | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._registry.register(self)

    def collect(self) -> Iterator[Any]:
        """Yield the gauges of the namespace (Prometheus calls this)."""
        follower = self._follower
        requests, followed, streams, snapshots = described()
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        followed.add_metric([], float(follower.followed))
        streams.add_metric([], float(self._streams.open))
        yield from (requests, followed, streams)
        if follower.version and follower.followed:
            views = follower.newest_first()
            for status, count in sorted(Counter(view.status.value for view in views).items()):
                snapshots.add_metric([status], count)
            yield snapshots
            fresh = replace(freshness_in(follower.reading, follower.clock()), restorable=self._kept)
            for gauge in gauges(fresh):
                names = ["namespace", gauge.label] if gauge.label else ["namespace"]
                family = GaugeMetricFamily(gauge.name, gauge.help, labels=names)
                for label, value in gauge.samples:
                    family.add_metric([follower.namespace, label][: len(names)], value)
                yield family

    async def rendered(self) -> bytes:
        """Return the metrics as text for Prometheus."""
        follower = self._follower
        good = follower.latest_good() if follower.version and follower.followed else None
        self._kept = None
        if good is not None:
            with contextlib.suppress(SnapkafkaError):  # the other metrics are still known
                self._kept = await follower.restorable(good)
        return generate_latest(self._registry)

    def count(self, method: str, route: str, status: int) -> None:
        """Count an answer."""
        self._requests[method, route, str(status)] += 1


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
RAW_HEADERS: Final = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
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
                message["headers"] = [*message["headers"], *RAW_HEADERS]
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


logger = logging.getLogger("snapkafka")

PAGE: Final = Path(__file__).parent / "page"


def make_app(
    where: Connection | Cluster,
    namespace: str,
    settings: Settings,
    *,
    clock: Callable[[], int] = wall_ms,
) -> ASGIApp:
    """Create the application. It follows the ledger from its start-up on.

    Args:
        clock: milliseconds since 1970.

    Raises:
        BadInputError: the settings are invalid.
    """
    settings.validate()
    follower = LedgerFollower(where, namespace, clock)
    handlers = Handlers(where, follower, settings)
    metrics = Metrics(follower, handlers.streams)

    def endpoint(path: str, api: Api) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            try:
                answer = await _answer(follower, api, getattr(handlers, api.name), request)
            except Exception as error:
                answer = _failed(request, error)
            metrics.count(request.method, path, answer.status_code)
            return answer

        return answered

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with follower.following():
            yield
            await handlers.jobs.close()

    async def scraped(request: Request) -> Response:
        return Response(await metrics.rendered(), headers={"content-type": CONTENT_TYPE_LATEST})

    inner = Starlette(
        routes=[
            *(Route(path, endpoint(path, api), methods=[method]) for (method, path), api in ROUTES.items()),
            Route("/metrics", scraped),
            Route("/healthz", _healthy),
            Route("/readyz", _ready_of(follower)),
            Route("/openapi.json", _openapi),
            Route("/", _page),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _http, Exception: _failed},
    )
    inner.router.redirect_slashes = False  # an unknown route is answered by a problem
    return Guard(inner, settings)


async def _answer(
    follower: LedgerFollower, api: Api, handler: Callable[..., Awaitable[Any]], request: Request
) -> Response:
    """Answer a client that has the role of a route: with what the ledger had when it was asked for, or with the header
    `Snapkafka-Stale`."""
    role: Role = request.scope["state"]["role"]
    if role < api.role:
        raise RefusedError(
            "forbidden",
            f"this needs the role {api.role.name.lower()}, the token has {role.name.lower()}",
            "use a token with that role",
        )
    is_fresh = not api.fresh or await follower.fresh()
    try:
        given = {**request.path_params, **({"role": role} if "role" in api.takes else {})}
        if kind := api.takes.get("asked"):
            given["asked"] = await (query_of if request.method == "GET" else body_of)(request, kind)
        if "snapshot_id" in given:
            given["view"] = follower.find(given.pop("snapshot_id"))
        found = await handler(**given)
    except UnknownSnapshotError:
        if is_fresh:
            raise
        raise follower.problem or TimedOutError("the ledger was not read to its end in time") from None
    answer = found if isinstance(found, Response) else json_answer(found, api.status)
    if not is_fresh:
        answer.headers["Snapkafka-Stale"] = "true"
    return answer


# -- errors ---------------------------------------------------------------------------------------------------


def _failed(request: Request, error: Exception) -> Response:
    """Answer an error; an unforeseen one is logged with its traceback, reported without."""
    if isinstance(error, SnapkafkaError):
        return problem(error)
    logger.error("snapkafka: %s %s failed", request.method, request.url.path, exc_info=error)
    return problem(
        InternalError("a bug in snapkafka", hint="the log of the service has more; please report it")
    )


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code, what = "not-found", f"no route {request.url.path[:80]}"
    if error.status_code == 405:
        code, what = "method-not-allowed", f"{request.method} is not allowed here"
    return problem(RefusedError(code, what, "see /openapi.json", headers=error.headers))


# -- what is no verb ------------------------------------------------------------------------------------------


async def _healthy(request: Request) -> Response:
    """Handle `GET /healthz`: the process answers."""
    return JSONResponse({"status": "ok"})


def _ready_of(follower: LedgerFollower) -> Callable[[Request], Awaitable[Response]]:
    async def ready(request: Request) -> Response:
        """Handle `GET /readyz`: the ledger was read to its end, and is followed."""
        await follower.fresh()
        if follower.followed:
            return JSONResponse({"status": "ok"})
        return problem(
            follower.problem or RefusedError("busy", "the ledger is still being read", "try again soon")
        )

    return ready


async def _openapi(request: Request) -> Response:
    """Handle `GET /openapi.json`."""
    return json_answer(document())


async def _page(request: Request) -> Response:
    """Handle `GET /`; its modules are files beside it."""
    return FileResponse(PAGE / "index.html")
