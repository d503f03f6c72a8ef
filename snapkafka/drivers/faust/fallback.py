"""Fall back for an unsupported Faust: a line in the log, and the pages that report it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from snapkafka.logs import about

from .web import serve

if TYPE_CHECKING:
    from ..host import Host

logger = logging.getLogger("snapkafka")


def run_without(host: Host, found: Sequence[str]) -> None:
    """Leave the app unpatched (R15).

    Args:
        found: what is not as expected.
    """
    host.absent = f"found that {', '.join(found)}"
    if host.config.web and hasattr(host.app, "_new_web"):
        serve(host)
    _notify_when_started(host.app, host.absent, host.about())


def cannot_be_loaded(app: Any, error: ImportError) -> None:
    """Leave an app unpatched for which the driver cannot even be created (R15)."""
    _notify_when_started(app, f"its driver cannot be loaded here ({error})", about())


def _notify_when_started(app: Any, why: str, extra: dict[str, Any]) -> None:
    def notify() -> None:
        logger.error("snapkafka: %s; this worker runs without snapshots", why, extra=extra)

    if not hasattr(app, "on_start"):
        notify()
        return
    start = app.on_start

    async def started() -> None:
        await refuse_if_restored(app, "this worker runs without snapkafka")
        await start()
        notify()

    app.on_start = started


async def refuse_if_restored(app: Any, why: str) -> None:
    """Refuse to run on offsets that a restore has set: only a worker with snapkafka honours them (D6).

    Raises:
        InstallError: there are such offsets.
    """
    try:
        from .restores import refuse_restored
    except ImportError:
        return  # nor can it be looked up
    await refuse_restored(app, why)
