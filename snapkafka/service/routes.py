"""The verbs over HTTP: each handler calls one function of `ops`, and returns its result."""

from __future__ import annotations

import asyncio
import builtins
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from snapkafka import ops
from snapkafka.errors import (
    BadInputError,
    InternalError,
    Reported,
    SnapkafkaError,
    SnapshotFailedError,
    UnknownSnapshotError,
)
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import RestorableEntry
from snapkafka.ops import Details, JobResult, SnapshotInfo
from snapkafka.ops.doctoring import Checkup
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView, Status
from snapkafka.query.locate import StoredFiles

from .access import Role, within
from .api import EVENTS, ROUTES, SVG, document, route
from .ledger_follower import LedgerFollower, Shared, Streams
from .problems import (
    AssemblyRequest,
    DiagramRequest,
    DiffRequest,
    ListRequest,
    QueryRequest,
    RefusedError,
    TriggerRequest,
    VerifyRequest,
    bounded,
    fits,
    json_answer,
    require_ready_made,
)
from .settings import Settings
from .views import Access, Page, Restore, Rows, Triggered, describe_restore

logger = logging.getLogger("snapkafka")

#: So many jobs that have ended are remembered.
KEPT: Final = 100


class Job(msgspec.Struct, kw_only=True, rename={"manifest": "checkpoint_manifest_uri"}):
    """An assembly or a verification of a snapshot. `job_id`: one job of a kind may run for a snapshot at a time."""

    job_id: str
    kind: Literal["assemble", "verify"]
    snapshot_id: str
    epoch: int
    state: Literal["queued", "running", "done", "failed", "cancelled"] = "queued"
    verdict: str | None = None
    manifest: str = ""
    error: Reported | None = None
    last_line: str = ""

    @property
    def over(self) -> bool:
        return self.state not in ("queued", "running")


Work = Callable[..., Awaitable[tuple[JobResult, ...]]]


class Jobs:
    """A runner of `most` jobs at once; as many again may wait. Their results are in the ledger and in storage: if the
    service is killed, its job ends with it, and the same request starts it again."""

    def __init__(self, most: int) -> None:
        self._most, self._slots = most, asyncio.Semaphore(most)
        self._jobs: dict[str, tuple[Job, asyncio.Task[None]]] = {}

    def get(self, name: str) -> Job | None:
        """Find a job by its id; a job of an earlier service, or of another instance, is unknown here."""
        return self._jobs[name][0] if name in self._jobs else None

    def submit(self, job: Job, work: Work) -> Job:
        """Start a job, or return the running one of the same kind and snapshot.

        Raises:
            RefusedError: too many wait already.
        """
        there = self.get(job.job_id)
        if there is not None and not there.over:
            return there
        over = [name for name, (other, _) in self._jobs.items() if other.over]
        if len(self._jobs) - len(over) >= 2 * self._most:
            raise RefusedError("busy", "too many assemblies are waiting", "try again when one is done")
        for name in over[:-KEPT]:
            del self._jobs[name]
        self._jobs.pop(job.job_id, None)
        self._jobs[job.job_id] = job, asyncio.ensure_future(self._run(job, work))
        return job

    async def _run(self, job: Job, work: Work) -> None:
        def notify(line: str) -> None:
            job.last_line = line[:500]

        try:
            async with self._slots:
                job.state = "running"
                (found,) = await work(notify=notify)
                job.verdict, job.manifest, job.state = found.verdict, found.manifest, "done"
        except asyncio.CancelledError:
            job.state = "cancelled"
            raise
        except SnapkafkaError as error:
            job.error, job.state = Reported.of(error), "failed"
        except Exception as error:
            logger.exception("snapkafka: %s failed", job.job_id)
            bug = InternalError(f"a bug in snapkafka: {type(error).__name__}")
            job.error, job.state = Reported.of(bug), "failed"

    async def close(self) -> None:
        """Cancel running jobs, and wait until their processes have ended."""
        tasks = [task for _, task in self._jobs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


__all__ = ["ROUTES", "Handlers", "document"]

#: No answer about the ledger is given later than this because of what only the broker knows: that is then unknown.
BROKER_S: Final = 0.3
#: `doctor` asks for all topics and groups. Who asks again later gets what was found meanwhile.
CHECKUP_S: Final = 10.0
#: A history has so many of the newest snapshots.
EVALUATIONS_MAX: Final = 500
#: Each fork has a ledger of its own, which is read for the list; that is kept for so long.
FORKS_S: Final = 10.0
FORKS_KEPT_S: Final = 5.0
SNAPSHOT: Final = "/v1/snapshots/{snapshot_id}"


class Handlers:
    """Every route of /v1, for one namespace."""

    def __init__(self, where: Connection | Cluster, follower: LedgerFollower, settings: Settings) -> None:
        self._where, self._follower, self._settings = where, follower, settings
        self.jobs = Jobs(settings.jobs_max)
        self.streams = Streams(follower, settings.streams_max)
        self._queries = asyncio.Semaphore(settings.queries_max)
        self._triggers = asyncio.Semaphore(settings.triggers_max)
        self._bounds = ops.Bounds(seconds=settings.query_s, memory_mb=settings.query_memory_mb)
        self._rows = Rows(follower, settings)
        self._forks: Shared[str, Sequence[ops.Fork]] = Shared(
            lambda namespace: ops.list_forks(where, namespace), lambda found: FORKS_KEPT_S, most=1
        )

    # -- asking for snapshots ---------------------------------------------------------------------------------

    @route("POST", "/v1/snapshots/trigger", Triggered, role=Role.TRIGGER, status=202, fresh=False)
    async def trigger(self, asked: TriggerRequest) -> Response:
        """Ask for a snapshot; the same snapshot_id again answers with the same snapshot."""
        storage = self._require_root(asked.storage, "target_storage_uri")
        if asked.retries and not asked.snapshot_id:
            raise BadInputError("retries need a snapshot_id", hint="see /openapi.json")
        if not asked.who.strip():
            raise BadInputError("initiated_by_node_id is empty", hint="name who asks, such as worker-node-42")
        async with _one_of(self._triggers, "triggers"):
            found = await ops.trigger(
                self._where, self._follower.namespace, **asdict(asked) | {"storage": storage}
            )
        like = [view for view in self._follower.newest_first() if view.trigger.type == found.type]
        took = filter(None, map(self._follower.reading.capture_ms, like))  # the last one is the best guess
        answer = Triggered(
            snapshot_id=found.id,
            status=found.status,
            initiated_at=found.initiated_at,
            estimated_completion_ms=next(took, found.ttl_ms),
            epoch=found.epoch,
            attempt=found.attempt,
        )
        return json_answer(answer, 202, {"Location": f"/v1/snapshots/{found.epoch}"})

    @route("POST", f"{SNAPSHOT}/abort", role=Role.ADMIN)
    async def abort(self, view: SnapshotView) -> SnapshotInfo:
        """Abort a running snapshot."""
        await ops.abort(self._where, self._follower.namespace, str(view.epoch), who="the service")
        await self._follower.fresh()
        return (await self._rows.rows([self._follower.find(str(view.epoch))]))[0]

    # -- reading the ledger -----------------------------------------------------------------------------------

    @route("GET", "/v1/snapshots")
    async def list(self, asked: ListRequest) -> Page:
        """List snapshots, newest first, in pages."""
        views = self._follower.newest_first()
        if asked != ListRequest(limit=asked.limit):
            views = [view for view in views if fits(view, asked)]
        page = views[: asked.limit]
        return Page(
            namespace=self._follower.namespace,
            next_before=page[-1].epoch if len(views) > len(page) else None,
            total=len(views),
            snapshots=await self._rows.rows(page),
        )

    @route("GET", SNAPSHOT)
    async def show(self, view: SnapshotView) -> Details:
        """All about one snapshot."""
        try:
            restorable = await self._follower.restorable(view.epoch, BROKER_S)
        except SnapkafkaError as error:
            restorable = RestorableEntry(how="unknown", why=error.message)
        return await self._rows.whole(view, restorable)

    @route("GET", "/v1/events", EVENTS)
    async def events(self) -> Response:
        """An event `changed` whenever the ledger has more."""
        return await self.streams.answer()

    @route("GET", "/v1/access", fresh=False)
    async def access(self, role: Role) -> Access:
        """What this client may do."""
        roots = self._settings.roots if role >= Role.TRIGGER else ()
        return Access(namespace=self._follower.namespace, role=role.name.lower(), storage_roots=roots)

    @route("GET", "/v1/doctor")
    async def doctor(self) -> Checkup:
        """What would spoil a snapshot."""
        return await self._follower.checkup.get(self._follower.namespace, CHECKUP_S)

    @route("GET", "/v1/invariants")
    async def invariants(self) -> dict[str, builtins.list[ops.Invariant]]:
        """Invariants, and whether they hold."""
        return {"invariants": [it.listed() for it in ops.invariants_in(self._follower.reading)]}

    @route("GET", "/v1/invariants/{name}")
    async def invariant(self, name: str) -> ops.Invariant:
        """The history of an invariant."""

        async def read(item: ops.Evaluation) -> StoredFiles | str:
            view = self._follower.reading.state.snapshots.get(item.epoch)
            stored = await self._rows.stored(view) if view else None
            return stored or "this service cannot read its manifest"

        found = ops.history_in(self._follower.reading, name, most=EVALUATIONS_MAX)
        return (await ops.with_rows(found, read)).listed(EVALUATIONS_MAX)

    @route("GET", "/v1/restores")
    async def restores(self) -> dict[str, builtins.list[Restore]]:
        """Restores, newest first."""
        reading = self._follower.reading
        views = sorted(reading.state.restores.views.values(), key=lambda view: view.begun_at, reverse=True)
        return {"restores": [describe_restore(view, reading.times_ms) for view in views]}

    @route("GET", "/v1/forks")
    async def forks(self) -> dict[str, builtins.list[ops.Fork]]:
        """Forks."""
        return {"forks": [*await self._forks.get(self._follower.namespace, FORKS_S)]}

    # -- assembling and verifying -----------------------------------------------------------------------------

    @route("POST", f"{SNAPSHOT}/assemble", Job, role=Role.TRIGGER, status=202)
    async def assemble(self, asked: AssemblyRequest, view: SnapshotView) -> Response:
        """Build its tables, and verify it."""
        storage = self._require_root(asked.storage or view.trigger.storage, "the storage")
        if view.status not in (Status.CAPTURED, Status.COMPLETED):
            raise SnapshotFailedError(
                f"snapshot {view.trigger.id} is {view.status}: there is nothing to assemble",
                hint="only a captured snapshot can be assembled",
            )
        wanted = {"snapshots": (str(view.epoch),), **asdict(asked), "storage": storage}
        return self._submitted("assemble", view, ops.assemble, wanted)

    @route("POST", f"{SNAPSHOT}/verify", Job, role=Role.TRIGGER, status=202)
    async def verify(self, asked: VerifyRequest, view: SnapshotView) -> Response:
        """Verify it again, from the log."""
        wanted = {"manifests": (self._manifest_of(view),), **asdict(asked)}
        return self._submitted("verify", view, ops.verify, wanted)

    def _submitted(
        self,
        kind: Literal["assemble", "verify"],
        view: SnapshotView,
        verb: Callable[..., Awaitable[Any]],
        wanted: dict[str, Any],
    ) -> Response:
        require_ready_made(wanted["invariants"])
        spec = ops.JobSpec(namespace=self._follower.namespace, **wanted)
        job = Job(job_id=f"{kind}-{view.epoch}", kind=kind, snapshot_id=view.trigger.id, epoch=view.epoch)
        job = self.jobs.submit(job, partial(verb, self._where, spec))
        return json_answer(job, 202, {"Location": f"/v1/jobs/{job.job_id}"})

    @route("GET", "/v1/jobs/{job_id}", fresh=False)
    async def job(self, job_id: str) -> Job:
        """A job of this instance."""
        if (found := self.jobs.get(job_id)) is None:
            hint = (
                "jobs end with their service; GET /v1/snapshots/{id} shows the verdict of one that was done"
            )
            raise RefusedError("not-found", "this instance of the service has no such job", hint)
        return found

    # -- asking tables ----------------------------------------------------------------------------------------

    @route("POST", f"{SNAPSHOT}/query", ops.Queried)
    async def query(self, asked: QueryRequest, view: SnapshotView) -> Response:
        """Query an assembled snapshot with SQL (DuckDB)."""
        if not 1 <= asked.rows_max <= self._settings.query_rows_max:
            raise BadInputError(
                f"rows_max must be 1 to {self._settings.query_rows_max}", hint="ask for fewer rows"
            )
        place = self._manifest_of(view)
        return await bounded(await self._ask(ops.query, asked.sql, manifest=place, rows_max=asked.rows_max))

    @route("GET", f"{SNAPSHOT}/diff", ops.Difference)
    async def diff(self, asked: DiffRequest, view: SnapshotView) -> Response:
        """List what changed from this snapshot to another."""
        sides = view, self._follower.find(asked.against)
        names, places = [it.trigger.id for it in sides], [self._manifest_of(it) for it in sides]
        return await bounded(
            await self._ask(ops.diff, *names, manifests=places, keys=asked.keys, values=asked.values)
        )

    @route("GET", f"{SNAPSHOT}/diagram.svg", SVG)
    async def diagram(self, asked: DiagramRequest, view: SnapshotView) -> Response:
        """Draw the cut as a space-time diagram."""
        if view.verdict is None or not view.verdict.manifest:
            state = self._follower.reading.state
            captured = state.captured(view.epoch) if view.captured_at is not None else None
            shown = ops.details(self._follower.reading, view, self._follower.clock())
            drawn = await asyncio.to_thread(ops.draw_details, shown, captured)
        else:
            place = self._manifest_of(view)
            drawn = await self._ask(ops.draw, manifest=place, messages_max=asked.messages)
        return Response(drawn.svg, media_type=SVG)

    # -- helpers ----------------------------------------------------------------------------------------------

    async def _ask(self, verb: Callable[..., Awaitable[Any]], *arguments: str, **options: Any) -> Any:
        """Ask for something in tables, in a process of its own, unless as many run as may."""
        async with _one_of(self._queries, "queries"):
            return await verb(
                self._where, self._follower.namespace, *arguments, bounds=self._bounds, **options
            )

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
