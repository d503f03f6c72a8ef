"""What people see, frozen: what some twenty commands print at 80 columns.

    python -m tests.golden --write    writes the files anew; read the difference before you commit it

They read three snapshots (`making`) and a cluster in memory.
"""

import sys

from .calls import FROZEN, printed

if sys.argv[1:] != ["--write"]:
    sys.exit(__doc__)
for path in FROZEN.iterdir():
    path.unlink()
for name, text in printed().items():
    (FROZEN / name).write_bytes(text.encode())
