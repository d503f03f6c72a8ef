"""Check that each protocol rule has its place: in docs/explanation/protocol.md, in code, tests and a scenario.

Part of `make lint`. The page gives for each rule R1 to R16 the lines Why, Source, Code, Tests and Scenario. Code names
files below snapkafka/ that cite the rule; Tests names functions whose names begin with the rule's number; Scenario is
a golden file of tests/scenarios that opens with the rule. No file may cite a rule that does not exist.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = "docs/explanation/protocol.md"
RULES: Final = range(1, 17)
LINES: Final = ("Why", "Source", "Code", "Tests", "Scenario")


def main(root: Path = ROOT) -> int:
    """Print each problem on a line; return 1 if there is one."""
    problems = [*check(root, (root / PAGE).read_text("utf-8")), *cited(root / "snapkafka")]
    for problem in problems:
        print(f"{PAGE}: {problem}", file=sys.stderr)
    if not problems:
        print(f"{PAGE}: every rule has its code, tests and scenario")
    return 1 if problems else 0


def check(root: Path, page: str) -> list[str]:
    """Return what is wrong with the text of the page, one line each; an empty list if nothing is."""
    found = re.findall(r"^## R(\d+): (.+?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    sections = {int(number): text for number, text in found}
    problems = [f"R{rule} has no section" for rule in RULES if rule not in sections]
    problems += [f"there is no rule R{rule}" for rule in sections if rule not in RULES]
    for rule, text in sections.items():
        problems += [f"R{rule}: {problem}" for problem in _section(root, rule, text)]
    return problems


def cited(package: Path) -> list[str]:
    """Return the files below `package` that cite a rule that does not exist, one line each."""
    return [
        f"{path.relative_to(package.parent)} cites R{number}, which is no rule"
        for path in sorted(package.rglob("*.py"))
        for number in {int(n) for n in re.findall(r"\bR(\d+)\b", path.read_text("utf-8"))} - set(RULES)
    ]


def _section(root: Path, rule: int, text: str) -> Iterator[str]:
    lines = dict(re.findall(r"^- (\w+): (.+(?:\n  .+)*)", text, re.MULTILINE))
    yield from (f"no line {name!r}" for name in LINES if name not in lines)
    named = {name: re.findall(r"`([^`]+)`", lines.get(name, "")) for name in ("Code", "Tests", "Scenario")}
    yield from (
        f"line {name!r} names nothing" for name, found in named.items() if name in lines and not found
    )
    for file in named["Code"]:
        path = root / "snapkafka" / file
        if not path.is_file():
            yield f"code {file} does not exist"
        elif not re.search(rf"\bR{rule}\b", path.read_text("utf-8")):
            yield f"code {file} does not cite it"
    for test in named["Tests"]:
        if test not in _tests(root):
            yield f"test {test} does not exist"
        elif not test.startswith(f"test_r{rule}_"):
            yield f"test {test} is not named after it"
    for file in named["Scenario"]:
        path = root / "tests" / "scenarios" / file
        if not path.is_file():
            yield f"scenario {file} does not exist"
        elif not path.read_text("utf-8").startswith(f"# R{rule}: "):
            yield f"scenario {file} does not open with it"


@functools.cache
def _tests(root: Path) -> frozenset[str]:
    pattern = re.compile(r"^ *(?:async )?def (test_r\w+)\(", re.MULTILINE)
    files = (root / "tests").rglob("test_*.py")
    return frozenset(name for path in files for name in pattern.findall(path.read_text("utf-8")))


if __name__ == "__main__":
    sys.exit(main())
