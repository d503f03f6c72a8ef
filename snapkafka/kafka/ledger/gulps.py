"""Gulps: while snapshots are under way a reader rests, and then takes at once what was written meanwhile.

Every record would wake every process, and the broker with each: of a snapshot of N processes N times 2N fetches. Nobody
waits for what a worker reads of the others, so it may come late. Who does wait ends the rest (`hurry`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Gulps:
    """The rests of one reader.

    Args:
        seconds: asked after each gulp for how long the reader rests; 0: not at all.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._ended = asyncio.Event()

    def hurry(self) -> None:
        """End the present rest, or leave out the next one: somebody waits for what stands in the ledger."""
        self._ended.set()

    async def rest(self) -> None:
        """Rest for a while, or until somebody is in a hurry."""
        if (seconds := self._seconds()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()
        self._ended.clear()
