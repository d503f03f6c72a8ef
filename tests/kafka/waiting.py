"""Waiting in tests: for a condition, not for a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable


async def until(
    condition: Callable[[], bool | Awaitable[bool]], *, timeout_s: float = 20.0, every_s: float = 0.05
) -> None:
    """Returns when the condition holds.

    Raises:
        AssertionError: it does not come to hold in time.
    """
    for _ in range(round(timeout_s / every_s)):
        held = condition()
        if await held if inspect.isawaitable(held) else held:
            return
        await asyncio.sleep(every_s)
    raise AssertionError(f"waited {timeout_s:g} s in vain")
