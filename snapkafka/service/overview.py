"""The namespace as a whole, over HTTP: what this client may do, what `doctor` finds, how invariants stand, restores and
forks. Only the command changes these."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request

from snapkafka import ops
from snapkafka.kafka.ledger.reading import LedgerReading
from snapkafka.protocol.restores import RestoreView
from snapkafka.query.stored import StoredFiles

from .access import Role
from .cache import Shared
from .ledger_follower import LedgerFollower
from .problems import RefusedError
from .rows import Rows
from .settings import Settings
from .views import Access, Findings, Forks, Invariants, Restore, Restores, fork_view, instant_of

#: `doctor` asks for all topics and groups. Who asks again later gets what was found meanwhile.
CHECKUP_S: Final = 10.0
#: A history has so many of the newest snapshots.
EVALUATIONS_MAX: Final = 500
#: Each fork has a ledger of its own, which is read for the list; that is kept for so long.
FORKS_S: Final = 10.0
FORKS_KEPT_S: Final = 5.0


class Overview:
    """The routes that are about no single snapshot, for one namespace.

    Args:
        list_forks: `ops.list_forks`, or its replacement in a test.
    """

    def __init__(
        self,
        follower: LedgerFollower,
        settings: Settings,
        rows: Rows,
        *,
        list_forks: Callable[..., Coroutine[Any, Any, Sequence[ops.Fork]]],
    ) -> None:
        self._follower, self._settings, self._rows = follower, settings, rows
        self._forks: Shared[str, Sequence[ops.Fork]] = Shared(
            partial(list_forks, follower.where), lambda found: FORKS_KEPT_S, most=1
        )

    async def access(self, request: Request) -> Access:
        """Handle `GET /v1/access`."""
        role: Role = request.scope["state"]["role"]
        roots = self._settings.roots if role >= Role.TRIGGER else ()
        return Access(namespace=self._follower.namespace, role=role.name.lower(), storage_roots=roots)

    async def doctor(self, request: Request) -> Findings:
        """Handle `GET /v1/doctor`."""
        try:
            found = await self._follower.checkup(CHECKUP_S)
        except TimeoutError:
            raise RefusedError("busy", "the cluster is still being examined", "try again soon") from None
        return Findings(well=found.well, apps=found.apps, findings=found.found)

    async def invariants(self, request: Request) -> Invariants:
        """Handle `GET /v1/invariants`."""
        return Invariants(invariants=[it.info() for it in ops.invariants_in(self._follower.reading)])

    async def invariant(self, request: Request) -> ops.InvariantDetails:
        """Handle `GET /v1/invariants/{name}`."""
        found = ops.history_in(self._follower.reading, request.path_params["name"], most=EVALUATIONS_MAX)
        return (await ops.with_rows(found, self._read)).details(EVALUATIONS_MAX)

    async def _read(self, item: ops.Evaluation) -> StoredFiles | str:
        """Read the manifest of a snapshot, if it lies below a root; else return why not."""
        view = self._follower.reading.state.snapshots.get(item.epoch)
        return (await self._rows.stored(view) if view else None) or "this service cannot read its manifest"

    async def restores(self, request: Request) -> Restores:
        """Handle `GET /v1/restores`."""
        reading = self._follower.reading
        views = sorted(reading.state.restores.views.values(), key=lambda view: view.begun_at, reverse=True)
        return Restores(restores=[_restore(view, reading) for view in views])

    async def forks(self, request: Request) -> Forks:
        """Handle `GET /v1/forks`."""
        try:
            found = await self._forks.get(self._follower.namespace, FORKS_S)
        except TimeoutError:
            raise RefusedError("busy", "the ledgers of the forks are being read", "try again soon") from None
        return Forks(forks=[fork_view(fork, self._follower.clock()) for fork in found])


def _restore(view: RestoreView, reading: LedgerReading) -> Restore:
    """Describe a plan: its stage, and when it reached each."""
    begun_at, closed_at = (
        instant_of(reading.times_ms.get(-1 if offset is None else offset, 0))
        for offset in (view.begun_at, view.closed_at)
    )
    return Restore(
        plan=view.plan,
        snapshot_id=view.begun.snapshot,
        epoch=view.begun.epoch,
        apps=view.apps,
        stage=view.stage,
        initiated_by_node_id=view.begun.who,
        reason=view.reason or None,
        begun_at=begun_at,
        closed_at=closed_at,
    )
