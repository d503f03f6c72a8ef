"""Hooks for objects that Faust creates when they are first needed, and for the start of an app."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

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
