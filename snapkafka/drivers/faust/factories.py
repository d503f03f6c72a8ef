"""Describe what Faust makes when it is first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["wrap_factory"]


def wrap_factory(app: Any, name: str, attach: Callable[[Any], Any], *, existing: Any) -> None:
    """Let `attach` see whatever the factory `name` of an app makes, and what it has made already.

    Args:
        existing: that; None: nothing yet.
    """
    make = getattr(app, name)

    def made() -> Any:
        product = make()
        attach(product)
        return product

    setattr(app, name, made)
    if existing is not None:
        attach(existing)
