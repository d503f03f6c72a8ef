"""Live progress as server-sent events: changes in the ledger, as it is read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from snapkafka.ops import SnapshotInfo
from snapkafka.protocol.ledger_state import SnapshotView

from .api import EVENTS
from .ledger_follower import LedgerFollower
from .problems import RefusedError

#: A stream on which nothing happens sends a comment now and then, so that a lost client is noticed.
BEAT_S: Final = 10.0
#: Of what changes more often only the last is sent.
AT_MOST_EVERY_S: Final = 0.1


class Streams:
    """A counter of open streams, up to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.open = 0

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Count one stream for the length of a block.

        Raises:
            RefusedError: the limit is reached.
        """
        if self.open >= self._most:
            raise RefusedError(
                "busy", f"{self._most} live streams are open", "close one, or ask without a stream"
            )
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


async def progress(
    follower: LedgerFollower, view: SnapshotView, describe: Callable[[], SnapshotInfo], streams: Streams
) -> AsyncIterator[str]:
    """Send a snapshot whenever it changes, until it is captured or has failed: events `snapshot`, and finally `end`."""
    with streams.one():
        last: SnapshotInfo | None = None
        while True:
            version, over = follower.version, not view.open
            now = describe()  # before anything is sent: meanwhile more may be read
            kept = msgspec.structs.replace(now, duration_ms=0)
            if kept != last:
                last = kept
                yield _event("snapshot", now)
            if over:
                yield _event("end", {"snapshot_id": now.id, "status": now.status})
                return
            if await follower.changed(version, BEAT_S) == version:
                yield ": nothing new\n\n"


async def stream(events: AsyncIterator[str]) -> Response:
    """Answer with a stream once its first event is there: it is counted from then on.

    Raises:
        RefusedError: the limit is reached.
    """
    first = await anext(events)

    async def all_of_them() -> AsyncIterator[str]:
        yield first
        async for event in events:
            yield event

    return StreamingResponse(all_of_them(), media_type=EVENTS, headers={"X-Accel-Buffering": "no"})


async def every_change(
    follower: LedgerFollower, describe: Callable[[], dict[str, Any]], streams: Streams
) -> AsyncIterator[str]:
    """Send a line about the namespace whenever the ledger has more: events `changed`."""
    with streams.one():
        last = ""
        while True:
            version, now = follower.version, _event("changed", describe())
            yield ": nothing new\n\n" if now == last else now
            last = now
            if await follower.changed(version, BEAT_S) == version:
                await follower.fresh()  # which notices a broker that is silent
            await asyncio.sleep(AT_MOST_EVERY_S)


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {msgspec.json.encode(data).decode()}\n\n"
