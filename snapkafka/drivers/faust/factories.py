"""A hook for objects that Faust creates when they are first needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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
