"""Another release of Faust, as far as its number goes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

RELEASE = "0.15.4"


def another_release(folder: Path) -> dict[str, str]:
    """The environment in which a worker runs on a later Faust."""
    about = folder / f"faust_streaming-{RELEASE}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: faust-streaming\nVersion: {RELEASE}\n")
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}
