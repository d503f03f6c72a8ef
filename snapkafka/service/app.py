"""The service as one ASGI application: routes behind their bounds, and the ledger followed as long as it runs."""

from __future__ import annotations

import contextlib
import logging
import mimetypes
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from snapkafka import ops
from snapkafka.errors import InternalError, SnapkafkaError, TimedOutError, UnknownSnapshotError
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.units import wall_ms

from .access import Role
from .guard import Guard
from .ledger_follower import LedgerFollower
from .metrics import Metrics
from .overview import Overview
from .problems import RefusedError, problem
from .recovery import Recovery
from .routes import Handlers
from .settings import Settings

logger = logging.getLogger("snapkafka")

#: Method and path -> the handler of `Handlers`, `Recovery` or `Overview`, and the role that it needs. The OpenAPI
#: document has the same routes.
ROUTES: Final[dict[tuple[str, str], tuple[str, Role]]] = {
    ("POST", "/v1/snapshots/trigger"): ("trigger", Role.TRIGGER),
    ("GET", "/v1/snapshots"): ("list", Role.READ),
    ("GET", "/v1/snapshots/{snapshot_id}"): ("show", Role.READ),
    ("GET", "/v1/snapshots/{snapshot_id}/events"): ("follow", Role.READ),
    ("GET", "/v1/snapshots/{snapshot_id}/diff"): ("diff", Role.READ),
    ("GET", "/v1/snapshots/{snapshot_id}/diagram.svg"): ("diagram", Role.READ),
    ("POST", "/v1/snapshots/{snapshot_id}/query"): ("query", Role.READ),
    ("POST", "/v1/snapshots/{snapshot_id}/abort"): ("abort", Role.ADMIN),
    ("POST", "/v1/snapshots/{snapshot_id}/assemble"): ("assemble", Role.TRIGGER),
    ("POST", "/v1/snapshots/{snapshot_id}/verify"): ("verify", Role.TRIGGER),
    ("GET", "/v1/jobs/{job_id}"): ("job", Role.READ),
    ("GET", "/v1/processes"): ("processes", Role.READ),
    ("GET", "/v1/restores"): ("restores", Role.READ),
    ("GET", "/v1/forks"): ("forks", Role.READ),
    ("GET", "/v1/access"): ("access", Role.READ),
    ("GET", "/v1/doctor"): ("doctor", Role.READ),
    ("GET", "/v1/invariants"): ("invariants", Role.READ),
    ("GET", "/v1/invariants/{name}"): ("invariant", Role.READ),
    ("GET", "/v1/events"): ("events", Role.READ),
}
#: What does not wait for the ledger's end: what is new comes by itself, or decides nothing.
AT_ONCE: Final = frozenset({"trigger", "events", "access", "job"})
#: The page may be kept for a minute; everything else is asked for anew.
PAGE_CACHE: Final = "public, max-age=60"


def needed(path: str, method: str) -> Role:
    """Return the role that a request needs; an unknown route needs the least."""
    parts = path.split("/")
    for (known, template), (_, role) in ROUTES.items():
        wanted = template.split("/")
        if known != ("GET" if method == "HEAD" else method) or len(wanted) != len(parts):
            continue
        if all(one.startswith("{") or one == two for one, two in zip(wanted, parts, strict=True)):
            return role
    return Role.READ


def make_app(
    where: Connection | Cluster,
    namespace: str,
    settings: Settings,
    *,
    clock: Callable[[], int] = wall_ms,
    assemble: Callable[..., Awaitable[Any]] = ops.assemble,
    verify: Callable[..., Awaitable[Any]] = ops.verify,
    list_forks: Callable[..., Coroutine[Any, Any, Any]] = ops.list_forks,
) -> ASGIApp:
    """Create the application. It follows the ledger from its start-up on.

    Args:
        clock: milliseconds since 1970.
        assemble, verify: the functions that run in the background.
        list_forks: the function that reads the ledgers of forks.

    Raises:
        BadInputError: the settings are invalid.
    """
    settings.validate()
    follower = LedgerFollower(where, namespace, clock)
    handlers = Handlers(where, follower, settings, assemble=assemble, verify=verify)
    recovery = Recovery(where, follower, list_forks=list_forks)
    overview = Overview(follower, settings, handlers.rows)
    handled = {
        name: next(getattr(it, name) for it in (handlers, recovery, overview) if hasattr(it, name))
        for name, _ in ROUTES.values()
    }
    handled |= {name: fresh(follower, it) for name, it in handled.items() if name not in AT_ONCE}
    metrics = Metrics(follower, handlers.streams)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with follower.following():
            yield
            await handlers.jobs.close()

    async def scraped(request: Request) -> Response:
        body, content_type = await metrics.rendered()
        return Response(body, headers={"content-type": content_type})

    inner = Starlette(
        routes=[
            *(Route(path, handled[name], methods=[method]) for (method, path), (name, _) in ROUTES.items()),
            Route("/metrics", scraped),
            Route("/healthz", _healthy),
            Route("/readyz", _ready_of(follower)),
            Route("/openapi.yaml", _openapi),
            Route("/", _page),
            Route("/page/{name}", _page),
        ],
        lifespan=lifespan,
        exception_handlers={
            SnapkafkaError: _known,
            HTTPException: _http,
            Exception: _bug,
        },
    )
    inner.router.redirect_slashes = (
        False  # an unknown route is an unknown route, with a problem for an answer
    )
    return Guard(metrics.around(inner), settings, needed)


def fresh(
    follower: LedgerFollower, handler: Callable[[Request], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a route whose answers hold what the ledger had when they were asked for; those that do not
    have the header `Snapkafka-Stale`."""

    async def answered(request: Request) -> Response:
        is_fresh = await follower.fresh()
        try:
            answer = await handler(request)
        except UnknownSnapshotError:
            if is_fresh:
                raise
            raise follower.problem or TimedOutError("the ledger was not read to its end in time") from None
        if not is_fresh:
            answer.headers["Snapkafka-Stale"] = "true"
        return answer

    return answered


# -- errors ---------------------------------------------------------------------------------------------------


async def _known(request: Request, error: Exception) -> Response:
    assert isinstance(error, SnapkafkaError)
    return problem(error)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    found = {
        404: ("not-found", f"no route {request.url.path[:80]}"),
        405: ("method-not-allowed", f"{request.method} is not allowed here"),
    }.get(error.status_code)
    if found is None:
        return await _bug(request, error)
    return problem(RefusedError(*found, "see /openapi.yaml", headers=error.headers))


async def _bug(request: Request, error: Exception) -> Response:
    """Answer an unforeseen error: logged with its traceback, reported without."""
    logger.error("snapkafka: %s %s failed", request.method, request.url.path, exc_info=error)
    return problem(
        InternalError("a bug in snapkafka", hint="the log of the service has more; please report it")
    )


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
    """Handle `GET /openapi.yaml`."""
    return Response(openapi().read_bytes(), media_type="application/yaml")


async def _page(request: Request) -> Response:
    """Handle `GET /` and the modules of the page."""
    name = request.path_params.get("name", "index.html")
    folder = files("snapkafka.service") / "page"
    known = {item.name: item for item in folder.iterdir() if item.is_file()}
    if name not in known:
        raise RefusedError("not-found", f"no route {request.url.path[:80]}", "see /openapi.yaml")
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0]
    return Response(
        known[name].read_bytes(), media_type=kind or "text/plain", headers={"cache-control": PAGE_CACHE}
    )


def openapi() -> Traversable:
    """Find the OpenAPI document: in the package if installed, beside it in a checkout."""
    packaged = files("snapkafka") / "schemas" / "openapi.yaml"
    if packaged.is_file():
        return packaged
    return Path(__file__).parents[2] / "schemas" / "openapi.yaml"
