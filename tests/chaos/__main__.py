"""`make chaos`: twenty minutes of faults, two hundred of them or more; `SEED=n make chaos` is another storm."""

from __future__ import annotations

import os
import sys
from collections import Counter

from .judge import judged, problems
from .storm import storm, stormy

MINUTES = 20.0
FAULTS = 200


def main() -> int:
    """0 if all is well."""
    seed = int(os.environ.get("SEED", "1985"))
    minutes = float(os.environ.get("MINUTES", MINUTES))
    with stormy("chaos") as system:
        found = storm(system, seed=seed, seconds=minutes * 60)
        print(*found.reported(), *found.crashed, sep="\n", flush=True)
        system.rest()
        verdicts = judged(system, found, at_most=60)
    wrong = problems(found, verdicts, faults=round(FAULTS * minutes / MINUTES), good=len(verdicts) * 8 // 10)
    print(dict(found.counts()), dict(Counter(verdict.value for verdict, _ in verdicts.values())))
    print(f"{len(found.faults)} faults, {found.share:.0%} of {len(found.views)} snapshots captured")
    print(*wrong or ["all is well"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
