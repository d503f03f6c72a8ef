"""Write the golden files: `python -m tests.golden --write`, or `--snapshots` for what they are made of."""

from __future__ import annotations

import sys

from . import write
from .making import make_snapshots

match sys.argv[1:]:
    case ["--write"]:
        write()
    case ["--snapshots"]:
        make_snapshots()
        write()
    case _:
        sys.exit(__doc__)
