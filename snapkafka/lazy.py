"""Facades whose names are imported on first use: who imports a package pays only for what is used of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `names` lists, for each module, what the package exports of it."""
    modules = {name: module for module, listed in names.items() for name in listed.split()}

    def resolve(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return resolve
