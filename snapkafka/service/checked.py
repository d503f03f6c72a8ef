"""Checks of requests against what the service can answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from snapkafka.checks.invariants import ready_made
from snapkafka.errors import BadInputError, SnapshotFailedError
from snapkafka.protocol.ledger_state import SnapshotView, Status

from .live import EVENT_STREAM, begun
from .requests import (
    ListRequest,
)

#: No answer to a query is larger.
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024


def fits(view: SnapshotView, asked: ListRequest) -> bool:
    """Return whether a snapshot passes the filters."""
    trigger = view.trigger
    return (
        view.epoch < asked.before
        and (not asked.status or view.status.value in asked.status)
        and (not asked.type or trigger.type == asked.type)
        and (not asked.verdict or (view.verdict is not None and view.verdict.verdict in asked.verdict))
        and (not asked.initiated_by or trigger.who == asked.initiated_by)
        and (not asked.app or not trigger.apps or asked.app in trigger.apps)
        and trigger.id.startswith(asked.id_prefix)
    )


def require_captured(view: SnapshotView) -> None:
    if view.status not in (Status.CAPTURED, Status.COMPLETED):
        raise SnapshotFailedError(
            f"snapshot {view.trigger.id} is {view.status}: there is nothing to assemble",
            hint="only a captured snapshot can be assembled",
        )


def require_ready_made(names: tuple[str, ...]) -> None:
    """Refuse paths: files on the machine of the service do not concern its clients."""
    if unknown := [name for name in names if name not in ready_made()]:
        raise BadInputError(
            f"invariant {unknown[0][:40]!r} is unknown", hint=f"it can be {', '.join(ready_made())}"
        )


async def bounded(answer: Any) -> Response:
    """Format an answer whose size its request decides."""
    found = await asyncio.to_thread(json_answer, answer)
    if len(found.body) > ANSWER_BYTES_MAX:
        raise BadInputError(
            f"the result has more than {ANSWER_BYTES_MAX:,} bytes",
            hint="ask for fewer rows, or shorter values",
        )
    return found


def json_answer(found: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(found), status, headers, media_type="application/json")


async def stream(events: AsyncIterator[str]) -> Response:
    return StreamingResponse(
        await begun(events), media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"}
    )
