"""What people see, frozen: what some twenty commands print at 80 columns.

    python -m tests.golden --write    writes the files anew; read the difference before you commit it

They read three snapshots (`making`) and a cluster in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .calls import printed

FROZEN: Final = Path(__file__).parent / "frozen"


def write() -> None:
    """Write every frozen file, and remove those that are no longer made."""
    made = printed()
    for path in FROZEN.glob("*.txt"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FROZEN / name).write_bytes(text.encode())
