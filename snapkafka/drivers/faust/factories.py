"""Hooks for objects that Faust creates when they are first needed, and for the start of an app, with snapkafka or
without."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from snapkafka.logs import about

logger = logging.getLogger("snapkafka")

Step = Callable[[], Awaitable[None]]


def wrap_factory(app: Any, name: str, attach: Callable[[Any], Any], *, existing: Any) -> None:
    """Call `attach` with whatever the factory `name` of an app creates, and with what it has created already.

    Args:
        existing: the object that exists already; None: there is none yet.
    """
    make = getattr(app, name)

    def made() -> Any:
        product = make()
        attach(product)
        return product

    setattr(app, name, made)
    if existing is not None:
        attach(existing)


def at_start(app: Any, *, before: Step | None = None, after: Step | None = None) -> None:
    """Do something before the app's own `on_start`, which fails the start if it raises, and after it."""
    start: Step = app.on_start

    async def started() -> None:
        if before is not None:
            await before()
        await start()
        if after is not None:
            await after()

    app.on_start = started


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
