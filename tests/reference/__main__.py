"""Check the generated pages, or write them: `python -m tests.reference [--write]`."""

from __future__ import annotations

import sys

from . import FOLDER, PAGES, outdated, write

if sys.argv[1:] == ["--write"]:
    write()
pages = outdated()
for page in pages:
    print(f"{page} is not what the code gives; run: python -m tests.reference --write", file=sys.stderr)
if not pages:
    print(f"{FOLDER}: {len(PAGES)} generated pages are up to date")
sys.exit(1 if pages else 0)
