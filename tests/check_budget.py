"""Check that no folder has more lines of Python than `[tool.snapkafka.budget]` in pyproject.toml allows it.

`--write` lowers the numbers of the table to what is there; nothing raises them but an editor.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]


def lines(root: Path, pattern: str) -> int:
    """Return the lines of the Python files of a pattern, blank ones too, without what protoc has generated."""
    paths = (path for path in root.glob(pattern) if path.suffix == ".py" and "_pb2" not in path.name)
    return sum(len(path.read_bytes().splitlines()) for path in paths)


def over(root: Path) -> list[str]:
    """Return each folder that is over its budget, as a line of text."""
    budget = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["snapkafka"]["budget"]
    found = ((pattern, lines(root, pattern), allowed) for pattern, allowed in budget.items())
    return [
        f"{pattern}: {count} lines, {allowed} allowed" for pattern, count, allowed in found if count > allowed
    ]


def lower(root: Path) -> None:
    """Write the present number of lines where it is smaller than the allowed one."""
    path = root / "pyproject.toml"
    head, table, rest = re.split(
        r"(^\[tool\.snapkafka\.budget\]\n(?:(?!\[).*\n)*)", path.read_text("utf-8"), flags=re.MULTILINE
    )
    table = re.sub(
        r'^"(.+)" = (\d+)',
        lambda m: f'"{m[1]}" = {min(lines(root, m[1]), int(m[2]))}',
        table,
        flags=re.MULTILINE,
    )
    path.write_text(head + table + rest, "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        lower(ROOT)
    problems = over(ROOT)
    print("\n".join(problems) or "every folder is within its budget")
    sys.exit(1 if problems else 0)
