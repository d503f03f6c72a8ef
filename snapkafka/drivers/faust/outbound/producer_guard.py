"""The guard of Faust's producer, skipped once that has started.

For each record, `topic.send` and `event.forward` ask `app.maybe_start_producer` for the producer. Faust guards that
call against many concurrent starts, and the guard yields to the event loop three times. Once it has started there
is nothing to guard: one yield is enough, so that a task that only sends does not starve others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import faust.app.base
from mode.utils.futures import StampedeWrapper

from ...aio_client import is_from
from ..describe import in_transactions


def skip_producer_guard(app: Any, stand_down: Callable[[str, Exception], None]) -> None:
    """Replace `app.maybe_start_producer`, unless it is not Faust's own.

    Args:
        stand_down: is called with a fault of ours.
    """
    guard: Any = app.maybe_start_producer
    own = type(guard) is StampedeWrapper and is_from(guard.fun, faust.app.base)
    if in_transactions(app) or not own:
        return

    async def at_hand() -> Any:
        try:
            await asyncio.sleep(0)
            made = app.producer
            if made._started.is_set():
                return made
        except Exception as error:
            stand_down("to give the producer", error)
        return await guard()

    app.maybe_start_producer = at_hand
