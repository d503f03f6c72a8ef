"""The producer, at hand for who sends.

For each record `topic.send` and `event.forward` ask `app.maybe_start_producer` for the producer. Faust has that guarded
against a herd that would start it at once, and the guard lets everything else on the loop run, three times over. Once
the producer has been started there is nothing to guard: then everything else runs once, so that a task that does
nothing but send holds up nobody. That saves more than a stamp costs (docs/evidence/performance.md).

Where Faust is not the one that this was written after, in transactions, and until the producer has been started, it is
Faust's guard that answers.
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
    """Stand in for `app.maybe_start_producer`, which gives this producer.

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
