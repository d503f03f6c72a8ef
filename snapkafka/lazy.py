"""Facades whose names are imported on first use: who imports a package pays only for what is used of it."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any


def lazily(facade: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module, which imports what the module names for type checkers alone: the lines
    `from ... import ...` between `if TYPE_CHECKING:` and `else:`."""

    @cache
    def modules() -> dict[str, str]:
        source = Path(sys.modules[facade].__file__ or "").read_text("utf-8")
        lines = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\nelse:\n")[0]
        found = re.findall(r"from (\S+) import (?:\(([^)]*)\)|(.*))", lines)
        return {
            name: module for module, several, some in found for name in re.findall(r"\w+", several or some)
        }

    def resolve(name: str) -> Any:
        if name not in modules():
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules()[name], facade), name)

    return resolve
