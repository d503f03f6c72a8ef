"""Write the golden files: `python -m tests.golden --write`."""

from __future__ import annotations

import sys

from . import write

match sys.argv[1:]:
    case ["--write"]:
        write()
    case _:
        sys.exit(__doc__)
