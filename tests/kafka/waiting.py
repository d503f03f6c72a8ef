"""Waiting in tests: for a condition, not for a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from snapkafka import until as waits


async def until(
    condition: Callable[[], bool | Awaitable[bool]], *, timeout_s: float = 20.0, every_s: float = 0.05
) -> None:
    """Returns when the condition holds.

    Raises:
        TimedOutError: it does not come to hold in time; it names it.
    """
    await waits.until(
        condition, timeout_s, getattr(condition, "__qualname__", repr(condition)), every_s=every_s
    )
