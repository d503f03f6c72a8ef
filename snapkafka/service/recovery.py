"""Restores and forks over HTTP, read-only: their state in the ledger. Only the command changes them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from snapkafka import ops
from snapkafka.kafka.ledger.reading import LedgerReading
from snapkafka.kafka.login.connection import Connection
from snapkafka.ops import instant
from snapkafka.ports import Cluster
from snapkafka.protocol.restores import RestoreView

from .cache import Shared
from .ledger_follower import LedgerFollower
from .problems import RefusedError

#: Each fork has a ledger of its own, which is read for the list.
FORKS_S: Final = 10.0
#: A list of forks is kept for so long.
FORKS_KEPT_S: Final = 5.0


class Recovery:
    """The routes of restores and forks, for one namespace.

    Args:
        list_forks: `ops.list_forks`, or its replacement in a test.
    """

    def __init__(
        self,
        where: Connection | Cluster,
        follower: LedgerFollower,
        *,
        list_forks: Callable[..., Coroutine[Any, Any, Sequence[ops.Fork]]] = ops.list_forks,
    ) -> None:
        self._follower = follower
        self._forks: Shared[str, Sequence[ops.Fork]] = Shared(
            partial(list_forks, where), lambda found: FORKS_KEPT_S, most=1
        )

    async def restores(self, request: Request) -> Response:
        """Handle `GET /v1/restores`."""
        reading = self._follower.reading
        views = sorted(reading.state.restores.views.values(), key=lambda view: view.begun_at, reverse=True)
        return JSONResponse({"restores": [_restore(view, reading) for view in views]})

    async def forks(self, request: Request) -> Response:
        """Handle `GET /v1/forks`."""
        try:
            found = await self._forks.get(self._follower.namespace, FORKS_S)
        except TimeoutError:
            raise RefusedError("busy", "the ledgers of the forks are being read", "try again soon") from None
        return JSONResponse({"forks": [_fork(fork, self._follower.clock()) for fork in found]})


def _restore(view: RestoreView, reading: LedgerReading) -> dict[str, Any]:
    """Describe a plan: its stage, and when it reached each."""
    times = reading.times_ms
    at = {"begun_at": view.begun_at, "closed_at": view.closed_at}
    return {
        "plan": view.plan,
        "snapshot_id": view.begun.snapshot,
        "epoch": view.begun.epoch,
        "apps": list(view.apps),
        "stage": view.stage,
        "initiated_by_node_id": view.begun.who,
        "reason": view.reason or None,
        **{name: _instant(times.get(-1 if offset is None else offset, 0)) for name, offset in at.items()},
    }


def _fork(fork: ops.Fork, now_ms: int) -> dict[str, Any]:
    return {
        "fork": fork.fork,
        "namespace": fork.namespace,
        "stage": fork.stage,
        "snapshot_id": fork.snapshot,
        "epoch": fork.epoch,
        "plan": fork.plan,
        "apps": list(fork.apps),
        "topics": len(fork.topics),
        "initiated_by_node_id": fork.who,
        "created_at": _instant(fork.created_ms),
        "expires_at": _instant(fork.expires_ms),
        "expired": fork.expired(now_ms),
    }


def _instant(ms: int) -> str | None:
    """Format a time as the contract has them; None for 0, which is none or unknown."""
    return instant(ms) if ms else None
