"""Live progress as server-sent events: changes in the ledger, as it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from starlette.responses import Response, StreamingResponse

from .api import EVENTS
from .ledger_follower import LedgerFollower
from .problems import RefusedError

#: A stream on which nothing happens sends a comment now and then, so that a lost client is noticed.
BEAT_S: Final = 10.0
#: Of what changes more often only the last is sent.
AT_MOST_EVERY_S: Final = 0.1


class Streams:
    """Live streams, up to `most`, of which `open` are open: an event `changed` whenever the ledger has more."""

    def __init__(self, follower: LedgerFollower, most: int) -> None:
        self._follower, self._most = follower, most
        self.open = 0

    async def answer(self) -> Response:
        """Answer with a stream once its first event is there: it is counted from then on.

        Raises:
            RefusedError: the limit is reached.
        """
        events = self._events()
        first = await anext(events)

        async def all_of_them() -> AsyncIterator[str]:
            yield first
            async for event in events:
                yield event

        return StreamingResponse(all_of_them(), media_type=EVENTS, headers={"X-Accel-Buffering": "no"})

    async def _events(self) -> AsyncIterator[str]:
        if self.open >= self._most:
            busy = f"{self._most} live streams are open"
            raise RefusedError("busy", busy, "close one, or ask without a stream")
        self.open += 1
        try:
            last = ""
            while True:
                version, now = self._follower.version, self._now()
                yield ": nothing new\n\n" if now == last else now
                last = now
                if await self._follower.changed(version, BEAT_S) == version:
                    await self._follower.fresh()  # which notices a broker that is silent
                await asyncio.sleep(AT_MOST_EVERY_S)
        finally:
            self.open -= 1

    def _now(self) -> str:
        state, problem = self._follower.reading.state, self._follower.problem
        data = {
            "ledger_end": state.end,
            "snapshots": len(state.snapshots),
            "running": [view.trigger.id for view in state.open.values()],
            "paused": state.paused,
            "followed": self._follower.followed,
            "problem": None if problem is None else problem.message,
        }
        return f"event: changed\ndata: {msgspec.json.encode(data).decode()}\n\n"
