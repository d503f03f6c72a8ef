"""What `make mutation` found: the score of each module, the survivors by name; 1 where the score is below 90 %.

A mutant is caught if a test fails, or does not end in time. Those that no test reaches count as survivors.
"""

import json
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

MUTANTS: Final = Path("mutants")
LEAST: Final = 0.90

#: Exit statuses of mutmut's runs; None: not run (a sample was asked for).
SURVIVED: Final = frozenset({0, 5, 33})


def main(mutants: Path = MUTANTS) -> int:
    """Print the scores; the exit status."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    survivors = []
    for file in sorted(mutants.glob("snapkafka/**/*.py.meta")):
        module = file.relative_to(mutants).as_posix().removesuffix(".meta")
        for name, status in json.loads(file.read_text("utf-8"))["exit_code_by_key"].items():
            what = "not run" if status is None else "survived" if status in SURVIVED else "caught"
            found[module][what] += 1
            if what == "survived":
                survivors.append(name)
    total = sum(found.values(), Counter[str]())
    for module, counts in [*found.items(), ("all", total)]:
        print(f"{module:40} {_score(counts):6.1%}  {dict(counts)}")
    print("survivors:", *survivors, sep="\n  ")
    return 0 if total["caught"] and _score(total) >= LEAST else 1


def _score(counts: Counter[str]) -> float:
    return counts["caught"] / max(1, counts["caught"] + counts["survived"])


if __name__ == "__main__":
    sys.exit(main())
