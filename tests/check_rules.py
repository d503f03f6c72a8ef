"""Check that each protocol rule has a section on the rules page and a scenario, and that code cites no other rule."""

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/explanation/protocol.md"
RULES: Final = range(1, 17)


def check(root: Path, page: str) -> list[str]:
    """Return what is wrong with the text of the page and the code at `root`, one line each."""
    sections = dict(re.findall(r"^## R(\d+): (.+?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    problems = [f"R{rule} has no section" for rule in RULES if str(rule) not in sections]
    for rule, text in sections.items():
        if int(rule) not in RULES:
            problems.append(f"there is no rule R{rule}")
        paths = [root / "tests/scenarios" / name for name in re.findall(r"`(r\d+-[\w-]+\.txt)`", text)]
        if not paths or not all(
            path.is_file() and path.read_text("utf-8").startswith(f"# R{rule}: ") for path in paths
        ):
            problems.append(f"R{rule} names no scenario that opens with it")
    for path in sorted((root / "snapkafka").rglob("*.py")):
        cited = {int(number) for number in re.findall(r"\bR(\d+)\b", path.read_text("utf-8"))}
        problems += [
            f"{path.relative_to(root)} cites R{rule}, which is no rule" for rule in sorted(cited - {*RULES})
        ]
    return problems


if __name__ == "__main__":
    found = check(ROOT, (ROOT / PAGE).read_text("utf-8"))
    print("\n".join(found) or f"{PAGE}: every rule has its section and scenario")
    sys.exit(1 if found else 0)
