"""The wait with a deadline: for a condition, never for a time. The error reports what was awaited."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from snapkafka.errors import SnapkafkaError, TimedOutError

#: The pause between two tries (s).
EVERY_S: Final = 0.1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tries:
    """Tries until a deadline, one at least: `for _ in Tries(5.0)`, or `async for`."""

    within_s: float
    every_s: float = EVERY_S

    def __iter__(self) -> Iterator[None]:
        deadline = time.monotonic() + self.within_s
        yield
        while time.monotonic() < deadline:
            time.sleep(self.every_s)
            yield

    async def __aiter__(self) -> AsyncIterator[None]:
        deadline = time.monotonic() + self.within_s
        yield
        while time.monotonic() < deadline:
            await asyncio.sleep(self.every_s)
            yield


async def until(holds: Callable[[], Any], within_s: float, what: str, *, every_s: float = EVERY_S) -> Any:
    """Wait until `holds`, a function or a coroutine function, returns something true; return that.

    Args:
        what: what is awaited, for the error.

    Raises:
        TimedOutError: the deadline has passed.
    """
    async for _ in Tries(within_s, every_s):
        found = holds()
        if found := await found if inspect.isawaitable(found) else found:
            return found
    raise _late(within_s, what)


def blocking_until(holds: Callable[[], Any], within_s: float, what: str, *, every_s: float = EVERY_S) -> Any:
    """Wait as `until` does, in a program without an event loop."""
    for _ in Tries(within_s, every_s):
        if found := holds():
            return found
    raise _late(within_s, what)


async def succeed(
    work: Callable[[], Awaitable[T]],
    within_s: float,
    *failures: type[Exception],
    every_s: float = EVERY_S,
) -> T:
    """Do a work until it succeeds; of these failures only the one at the deadline is raised."""
    async for _ in Tries(within_s, every_s):
        try:
            return await work()
        except failures as error:
            failure = error
    raise failure


@asynccontextmanager
async def within(seconds: float | None, late: Callable[[], SnapkafkaError]) -> AsyncIterator[None]:
    """End the block at a deadline, with the error that `late` returns; None: there is no deadline.

    A `TimeoutError` from the block itself, such as that of a socket, is raised as it is: the deadline has not passed.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise late() from None


def _late(within_s: float, what: str) -> TimedOutError:
    return TimedOutError(f"waited {within_s:g} s for {what}")


def pause_after(attempt: int, share: float, *, first: float, most: float) -> float:
    """Return the pause before the attempt that follows `attempt` (1, 2, ...), in the unit of `first` and `most`.

    Nothing of a failed attempt stands in the way of the next one, a fresh epoch (R1). But its cause may last for a
    while, so each pause is twice the one before, up to a bound; a share of each is random, so that callers that failed
    together do not return together.

    Args:
        share: drawn by the caller, in [0, 1): between half of the pause and the whole of it.
    """
    whole = min(first * 2.0 ** min(attempt - 1, 32), most)
    return whole * (0.5 + share / 2)
