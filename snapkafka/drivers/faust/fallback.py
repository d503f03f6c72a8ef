"""An app that runs without snapkafka: nothing of it is patched but its start."""

from __future__ import annotations

import logging
from typing import Any

from snapkafka.logs import about

from .factories import at_start

logger = logging.getLogger("snapkafka")


def run_without(app: Any, why: str, *, error: bool = False) -> None:
    """Let an app refuse to start on offsets that a restore has set: only a worker with snapkafka honours them (D6).

    Args:
        error: log at the start that it runs without snapshots, and why (R15).
    """

    async def refuse() -> None:
        try:
            from .restores import refuse_restored
        except ImportError:
            return  # of something that a later aiokafka has elsewhere; nor can it be looked up then
        await refuse_restored(app, "this worker runs without snapkafka" if error else why)

    async def notify() -> None:
        logger.error("snapkafka: %s; this worker runs without snapshots", why, extra=about())

    at_start(app, before=refuse, after=notify if error else None)
