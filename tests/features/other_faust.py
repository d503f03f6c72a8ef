"""A Faust that has something under another name, as a later release might: a copy of it that works as before."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import faust


def renamed(folder: Path, name: str) -> dict[str, str]:
    """The environment in which a worker runs on a Faust without `name`.

    Args:
        name: of a method or attribute that no other package has, nor Faust's Cython parts, which are left out.
    """
    source, copy = Path(faust.__file__).parent, folder / "faust"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    changed = 0
    for path in copy.rglob("*.py"):
        text, count = re.subn(rf"\b{name}\b", f"other_{name.lstrip('_')}", path.read_text())
        if count:
            path.write_text(text)
            changed += count
    assert changed, f"Faust has no {name}"
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
