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
    def named() -> dict[str, tuple[str, str]]:
        source = Path(sys.modules[facade].__file__ or "").read_text("utf-8")
        lines = source.partition("\nif TYPE_CHECKING:\n")[2].partition("\nelse:\n")[0]
        found = re.findall(r"from (\S+) import (?:\(([^)]*)\)|(.*))", lines)
        lists = ((it[0], re.findall(r"(\w+)(?: as (\w+))?", it[1] or it[2])) for it in found)
        return {alias or name: (module, name) for module, names in lists for name, alias in names}

    def resolve(name: str) -> Any:
        if name not in named():
            raise AttributeError(f"module {facade!r} has no attribute {name!r}")
        module, its_own = named()[name]
        return getattr(importlib.import_module(module, facade), its_own)

    return resolve
