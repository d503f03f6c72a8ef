"""The verbs over HTTP: each handler reads a request, calls one function of `ops`, and returns its result as JSON."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, Literal
from urllib.parse import quote

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from snapkafka import ops
from snapkafka.errors import BadInputError, SnapkafkaError, UnknownSnapshotError
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import RestorableEntry
from snapkafka.ops import Details, SnapshotInfo, instant
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView

from .access import within
from .jobs import Job, Jobs
from .ledger_follower import LedgerFollower
from .live import Streams, every_change, progress
from .problems import RefusedError
from .requests import (
    AssemblyRequest,
    DiagramRequest,
    DiffRequest,
    ListRequest,
    QueryRequest,
    TriggerRequest,
    VerifyRequest,
    body_of,
    bounded,
    fits,
    json_answer,
    query_of,
    require_captured,
    require_ready_made,
    stream,
)
from .rows import Rows as SnapshotRows
from .settings import Settings
from .views import Page, Process, Processes, Rows, Triggered

#: A trigger is estimated from the captures of so many of the newest snapshots; more than that is another system.
ESTIMATED_FROM: Final = 50
#: No answer about the ledger is given later than this because of what only the broker knows: that is then unknown.
BROKER_S: Final = 0.3


class Handlers:
    """Every route of /v1, for one namespace.

    Args:
        assemble, verify: `ops.assemble` and `ops.verify`, or their replacements in a test.
    """

    def __init__(
        self,
        where: Connection | Cluster,
        follower: LedgerFollower,
        settings: Settings,
        *,
        assemble: Callable[..., Awaitable[Any]] = ops.assemble,
        verify: Callable[..., Awaitable[Any]] = ops.verify,
    ) -> None:
        self._where, self._follower, self._settings = where, follower, settings
        self._assemble, self._verify = assemble, verify
        self.jobs = Jobs(settings.jobs_max)
        self.streams = Streams(settings.streams_max)
        self._queries = asyncio.Semaphore(settings.queries_max)
        self._triggers = asyncio.Semaphore(settings.triggers_max)
        self._bounds = ops.Bounds(seconds=settings.query_s, memory_mb=settings.query_memory_mb)
        self.rows = SnapshotRows(follower, settings)

    # -- asking for snapshots ---------------------------------------------------------------------------------

    async def trigger(self, request: Request) -> Response:
        """Handle `POST /v1/snapshots/trigger`."""
        asked = await body_of(request, TriggerRequest)
        storage = self._require_root(asked.storage, "target_storage_uri")
        if asked.retries and not asked.snapshot_id:
            raise BadInputError("retries need a snapshot_id", hint="see /openapi.json")
        if not asked.who.strip():
            raise BadInputError("initiated_by_node_id is empty", hint="name who asks, such as worker-node-42")
        async with _one_of(self._triggers, "triggers"):
            found = await ops.trigger(
                self._where,
                self._follower.namespace,
                **asdict(asked) | {"storage": storage},
            )
        reading = self._follower.reading
        took = [
            took_ms
            for view in self._follower.newest_first()[:ESTIMATED_FROM]
            if view.trigger.type == found.type and (took_ms := reading.capture_ms(view)) is not None
        ]
        name = str(found.epoch) if "/" in found.id or found.id in (".", "..") else quote(found.id)
        answer = Triggered(
            snapshot_id=found.id,
            status=found.status,
            initiated_at=found.initiated_at,
            estimated_completion_ms=round(statistics.median(took)) if took else found.ttl_ms,
            epoch=found.epoch,
            attempt=found.attempt,
        )
        return json_answer(answer, 202, {"Location": f"/v1/snapshots/{name}"})

    async def abort(self, request: Request) -> SnapshotInfo:
        """Handle `POST /v1/snapshots/{id}/abort`."""
        found = await ops.abort(
            self._where, self._follower.namespace, request.path_params["snapshot_id"], who="the service"
        )
        await self._follower.fresh()
        view = self._follower.find(str(found.epoch))
        return self.rows.row(view, await self.rows.stored(view))

    # -- looking at them --------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Page:
        """Handle `GET /v1/snapshots`."""
        asked = query_of(request, ListRequest)
        views = [view for view in self._follower.newest_first() if fits(view, asked)]
        page = views[: asked.limit]
        return Page(
            namespace=self._follower.namespace,
            next_before=page[-1].epoch if len(views) > len(page) else None,
            total=len(views),
            snapshots=await self.rows.rows(page),
        )

    async def show(self, request: Request) -> Details:
        """Handle `GET /v1/snapshots/{id}`."""
        view = self._found(request)
        try:
            restorable = await self._follower.restorable(view.epoch, BROKER_S)
        except SnapkafkaError as error:
            restorable = RestorableEntry(how="unknown", why=error.message)
        except TimeoutError:
            restorable = RestorableEntry(how="unknown", why="the broker has not answered yet; ask again")
        return await self.rows.whole(view, restorable)

    async def follow(self, request: Request) -> Response:
        """Handle `GET /v1/snapshots/{id}/events`."""
        view = self._found(request)
        stored = await self.rows.stored(view)
        describe = partial(self.rows.row, view, stored)
        return await stream(progress(self._follower, view, describe, self.streams))

    async def events(self, request: Request) -> Response:
        """Handle `GET /v1/events`."""

        def describe() -> dict[str, Any]:
            state, problem = self._follower.reading.state, self._follower.problem
            return {
                "ledger_end": state.end,
                "snapshots": len(state.snapshots),
                "running": [view.trigger.id for view in state.open.values()],
                "paused": state.paused,
                "followed": self._follower.followed,
                "problem": None if problem is None else problem.message,
            }

        return await stream(every_change(self._follower, describe, self.streams))

    async def processes(self, request: Request) -> Processes:
        """Handle `GET /v1/processes`."""
        reading = self._follower.reading
        found = [
            Process(
                process=view.process,
                app=view.hello.app,
                host=view.hello.host,
                pid=view.hello.pid,
                mode=view.hello.mode,
                release=view.hello.release,
                joined_at=instant(reading.times_ms.get(view.process, 0)),
                inputs=len(view.inputs),
                state="living" if view.left is None else "dead" if view.dead else "left",
            )
            for _, view in sorted(reading.state.processes.items())
        ]
        return Processes(paused=reading.state.paused, processes=found)

    # -- assembling and verifying -----------------------------------------------------------------------------

    async def assemble(self, request: Request) -> Response:
        """Handle `POST /v1/snapshots/{id}/assemble`."""
        asked = await body_of(request, AssemblyRequest)
        view = self._found(request)
        storage = self._require_root(asked.storage or view.trigger.storage, "the storage")
        require_ready_made(asked.invariants)
        require_captured(view)
        work = partial(
            self._assemble,
            self._where,
            ops.JobSpec(
                namespace=self._follower.namespace,
                snapshots=(str(view.epoch),),
                **asdict(asked) | {"storage": storage},
            ),
        )
        return self._submitted("assemble", view, work)

    async def verify(self, request: Request) -> Response:
        """Handle `POST /v1/snapshots/{id}/verify`."""
        asked = await body_of(request, VerifyRequest)
        view = self._found(request)
        require_ready_made(asked.invariants)
        place = self._manifest_of(view)
        work = partial(
            self._verify,
            self._where,
            ops.JobSpec(
                namespace=self._follower.namespace,
                manifests=(place,),
                **asdict(asked),
            ),
        )
        return self._submitted("verify", view, work)

    def _submitted(
        self, kind: Literal["assemble", "verify"], view: SnapshotView, work: Callable[..., Awaitable[Any]]
    ) -> Response:
        job = Job(job_id=f"{kind}-{view.epoch}", kind=kind, snapshot_id=view.trigger.id, epoch=view.epoch)
        job = self.jobs.submit(job, work)
        return json_answer(job, 202, {"Location": f"/v1/jobs/{job.job_id}"})

    async def job(self, request: Request) -> Job:
        """Handle `GET /v1/jobs/{id}`."""
        found = self.jobs.get(request.path_params["job_id"])
        if found is None:
            raise RefusedError(
                "not-found",
                "this instance of the service has no such job",
                "jobs end with their service; GET /v1/snapshots/{id} shows the verdict of one that was done",
            )
        return found

    # -- asking tables ----------------------------------------------------------------------------------------

    async def query(self, request: Request) -> Response:
        """Handle `POST /v1/snapshots/{id}/query`."""
        asked = await body_of(request, QueryRequest)
        if not 1 <= asked.rows_max <= self._settings.query_rows_max:
            raise BadInputError(
                f"rows_max must be 1 to {self._settings.query_rows_max}", hint="ask for fewer rows"
            )
        place = self._manifest_of(self._found(request))
        async with _one_of(self._queries, "queries"):
            found = await ops.query(
                self._where,
                self._follower.namespace,
                asked.sql,
                manifest=place,
                rows_max=asked.rows_max,
                bounds=self._bounds,
            )
        return await bounded(
            Rows(
                snapshot_id=found.id,
                epoch=found.epoch,
                verdict=found.verdict,
                columns=list(found.columns),
                rows=[list(row.values()) for row in found.rows],
                more=found.more,
                not_compared=list(found.trust.not_compared),
            )
        )

    async def diff(self, request: Request) -> Response:
        """Handle `GET /v1/snapshots/{id}/diff?against=ID`."""
        asked = query_of(request, DiffRequest)
        before, after = self._found(request), self._follower.find(asked.against)
        places = [self._manifest_of(view) for view in (before, after)]
        async with _one_of(self._queries, "queries"):
            found = await ops.diff(
                self._where,
                self._follower.namespace,
                before.trigger.id,
                after.trigger.id,
                manifests=places,
                keys=asked.keys,
                values=asked.values,
                bounds=self._bounds,
            )
        return await bounded(found)

    async def diagram(self, request: Request) -> Response:
        """Handle `GET /v1/snapshots/{id}/diagram.svg`."""
        asked = query_of(request, DiagramRequest)
        view = self._found(request)
        if not asked.wall_clock and (view.verdict is None or not view.verdict.manifest):
            state = self._follower.reading.state
            captured = state.captured(view.epoch) if view.captured_at is not None else None
            drawn = await asyncio.to_thread(ops.draw_details, self._follower.details(view), captured)
        else:
            place = self._manifest_of(view)
            async with _one_of(self._queries, "queries"):
                drawn = await ops.draw(
                    self._where,
                    self._follower.namespace,
                    manifest=place,
                    messages_max=asked.messages,
                    wall_clock=asked.wall_clock,
                    bounds=self._bounds,
                )
        return Response(drawn.svg, media_type="image/svg+xml")

    # -- helpers ----------------------------------------------------------------------------------------------

    def _found(self, request: Request) -> SnapshotView:
        return self._follower.find(request.path_params["snapshot_id"])

    def _require_root(self, uri: str, name: str) -> str:
        """Return the canonical form of a place below a root.

        Raises:
            RefusedError: it is not below one; the error does not contain it, as it may hold a secret.
        """
        if (place := within(uri, self._settings.roots)) is None:
            raise RefusedError(
                "forbidden",
                f"{name} is not below a configured storage root",
                "use a place below one; who runs the service can add another",
            )
        return place

    def _manifest_of(self, view: SnapshotView) -> str:
        place = ops.summary(self._follower.reading, view).manifest
        if view.verdict is None or not place:
            raise UnknownSnapshotError(
                f"snapshot {view.trigger.id} has no tables: it is {view.status}", hint="assemble it first"
            )
        return self._require_root(place, "the manifest")


def _one_of(slots: asyncio.Semaphore, what: str) -> asyncio.Semaphore:
    """Return the slots, unless all are taken: nobody waits for one.

    Raises:
        RefusedError: they are.
    """
    if slots.locked():
        raise RefusedError("busy", f"too many {what} are running", "try again when one is done")
    return slots
