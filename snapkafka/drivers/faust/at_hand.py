"""Direct access to the producer for code that sends.

For each record, `topic.send` and `event.forward` ask `app.maybe_start_producer` for the producer. Faust guards that
call against many concurrent starts, and the guard yields to the event loop three times. Once the producer has started
there is nothing to guard: one yield is enough, so that a task that only sends does not starve others. That saves more
than a stamp costs (docs/evidence/performance.md).

With an unknown Faust, in transactions, and until the producer has started, Faust's own guard answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from .batches import checksum
from .transactions import in_transactions

__all__ = ["keep_at_hand"]

#: The sources of what is stood in for, as checksums.
FAUST: Final = {0xAD7E46F1: "0.15.3 on mode-streaming 0.7.1"}


StandDown = Callable[[str, Exception], None]


def keep_at_hand(app: Any, producer: Any, stand_down: StandDown = lambda what, error: None) -> None:
    """Replace `app.maybe_start_producer` by a function that returns this producer.

    Args:
        stand_down: is called with a fault of ours.
    """
    guard: Any = getattr(app, "maybe_start_producer", None)
    stood_in_for = [
        getattr(type(guard), "__call__", None),  # noqa: B004
        getattr(guard, "fun", None),
        getattr(producer, "maybe_start", None),
    ]
    if in_transactions(app) or checksum(stood_in_for) not in FAUST:
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
