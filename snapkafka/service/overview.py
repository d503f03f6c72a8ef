"""The namespace as a whole, over HTTP: what this client may do, what `doctor` finds, how invariants
stand."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from snapkafka import ops
from snapkafka.ops import instant
from snapkafka.query.stored import StoredFiles

from .access import Role
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
        return JSONResponse(
            {
                "well": found.well,
                "apps": dict(found.apps),
                "findings": [dataclasses.asdict(advice) for advice in found.found],
            }
        )

    async def invariants(self, request: Request) -> Response:
        """Handle `GET /v1/invariants`."""
        return JSONResponse(
            {"invariants": [_summary(it) for it in ops.invariants_in(self._follower.reading)]}
        )

    async def invariant(self, request: Request) -> Response:
        """Handle `GET /v1/invariants/{name}`."""
        found = ops.history_in(self._follower.reading, request.path_params["name"], most=EVALUATIONS_MAX)
        found = await ops.with_rows(found, self._read)
        newest = found.evaluations[: -EVALUATIONS_MAX - 1 : -1]
        return JSONResponse(
            _summary(found)
            | {
                "violations": _violations(found),
                "other_query": [item.id for item in found.other_query],
                "evaluations": [_evaluation(item) for item in newest],
            }
        )

    async def _read(self, item: ops.Evaluation) -> StoredFiles | str:
        """Read the manifest of a snapshot, if it lies below a root; else return why not."""
        view = self._follower.reading.state.snapshots.get(item.epoch)
        return (await self._rows.stored(view) if view else None) or "this service cannot read its manifest"


def _violations(found: ops.InvariantHistory) -> list[dict[str, Any]]:
    """Return the snapshot that first violates it, and the newest one, with the violating rows of each."""
    return [
        _evaluation(item)
        | {"rows": [dataclasses.asdict(row) for row in item.rows], "unreadable": item.unreadable}
        for item in dict.fromkeys(
            it for it in (found.broke, found.last) if it and it.holding is ops.Holding.VIOLATED
        )
    ]


def _summary(found: ops.InvariantHistory) -> dict[str, Any]:
    last, broke = found.last, found.broke
    return {
        "name": found.name,
        "holding": found.state,
        "last": _evaluation(last) if last else None,
        "last_ok": _evaluation(found.last_ok) if found.last_ok else None,
        "not_evaluated_since": _evaluation(since) if (since := found.not_evaluated_since) else None,
        "broke": _evaluation(broke) if broke and found.violated else None,
    }


def _evaluation(item: ops.Evaluation) -> dict[str, Any]:
    return {
        "snapshot_id": item.id,
        "epoch": item.epoch,
        "initiated_at": instant(item.triggered_ms),
        "initiated_at_ms": item.triggered_ms,
        "verdict": item.verdict,
        "holding": item.holding,
        "found": item.found,
    }
