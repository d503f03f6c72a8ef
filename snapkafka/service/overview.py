"""What concerns the namespace as a whole, over HTTP: what this client may do, and what `doctor` finds."""

from __future__ import annotations

import dataclasses
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .access import Role
from .ledger_follower import Standing
from .problems import RefusedError
from .settings import Settings

#: `doctor` asks for all topics and groups. Who asks again later gets what was found meanwhile.
CHECKUP_S: Final = 10.0


class Overview:
    """The routes that are about no single snapshot, for one namespace."""

    def __init__(self, standing: Standing, settings: Settings) -> None:
        self._standing, self._settings = standing, settings

    async def access(self, request: Request) -> Response:
        """Handle `GET /v1/access`."""
        role: Role = request.scope["state"]["role"]
        return JSONResponse(
            {
                "namespace": self._standing.namespace,
                "role": role.name.lower(),
                "storage_roots": list(self._settings.roots) if role >= Role.TRIGGER else [],
            }
        )

    async def doctor(self, request: Request) -> Response:
        """Handle `GET /v1/doctor`."""
        try:
            found = await self._standing.checkup(CHECKUP_S)
        except TimeoutError:
            raise RefusedError("busy", "the cluster is still being examined", "try again soon") from None
        return JSONResponse(
            {
                "well": found.well,
                "apps": dict(found.apps),
                "findings": [dataclasses.asdict(advice) for advice in found.found],
            }
        )
