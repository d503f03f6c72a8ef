"""The namespace as a whole, over HTTP: what this client may do, what `doctor` finds, how invariants
stand."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from snapkafka import ops
from snapkafka.query.stored import StoredFiles

from .access import Role
from .checked import json_answer
from .ledger_follower import LedgerFollower
from .problems import RefusedError
from .rows import Rows
from .settings import Settings

#: `doctor` asks for all topics and groups. Who asks again later gets what was found meanwhile.
CHECKUP_S: Final = 10.0
#: A history has so many of the newest snapshots.
EVALUATIONS_MAX: Final = 500


class Overview:
    """The routes that are about no single snapshot, for one namespace."""

    def __init__(self, follower: LedgerFollower, settings: Settings, rows: Rows) -> None:
        self._follower, self._settings, self._rows = follower, settings, rows

    async def access(self, request: Request) -> Response:
        """Handle `GET /v1/access`."""
        role: Role = request.scope["state"]["role"]
        return JSONResponse(
            {
                "namespace": self._follower.namespace,
                "role": role.name.lower(),
                "storage_roots": list(self._settings.roots) if role >= Role.TRIGGER else [],
            }
        )

    async def doctor(self, request: Request) -> Response:
        """Handle `GET /v1/doctor`."""
        try:
            found = await self._follower.checkup(CHECKUP_S)
        except TimeoutError:
            raise RefusedError("busy", "the cluster is still being examined", "try again soon") from None
        return json_answer({"well": found.well, "apps": found.apps, "findings": found.found})

    async def invariants(self, request: Request) -> Response:
        """Handle `GET /v1/invariants`."""
        return json_answer({"invariants": [it.data() for it in ops.invariants_in(self._follower.reading)]})

    async def invariant(self, request: Request) -> Response:
        """Handle `GET /v1/invariants/{name}`."""
        found = ops.history_in(self._follower.reading, request.path_params["name"], most=EVALUATIONS_MAX)
        found = await ops.with_rows(found, self._read)
        return json_answer(found.data(EVALUATIONS_MAX))

    async def _read(self, item: ops.Evaluation) -> StoredFiles | str:
        """Read the manifest of a snapshot, if it lies below a root; else return why not."""
        view = self._follower.reading.state.snapshots.get(item.epoch)
        return (await self._rows.stored(view) if view else None) or "this service cannot read its manifest"
