"""Check that links lead somewhere: links of Markdown pages, and every `docs/...` that code or a file names.

Part of `make lint`; `make docs` has Sphinx check the pages of docs/ once more. A link may be a file, or a
file and a heading (`#exit-statuses`), by the name that GitHub gives it. `docs/...` is looked for in messages, comments
and docstrings of the package, in connectors/, docker/, schemas/, Makefile and pyproject.toml.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("snapkafka", "connectors", "docker", "schemas")
SUFFIXES: Final = frozenset(
    {".py", ".md", ".toml", ".yaml", ".yml", ".json", ".avsc", ".service", ".timer", ".js"}
)
#: Folders of this name hold what was fetched or built.
SKIPPED: Final = frozenset({".venv", "build", "dist", "__pycache__"})
_NAMED: Final = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.(?:md|svg)(#[\w-]+)?")
_LINK: Final = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[\w-]+)?\)")


def main(root: Path = ROOT) -> int:
    """Print each link that leads nowhere on a line; return 1 if there is one."""
    problems = [*named(root), *links(root)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("links: every page that code, README and other files name is there")
    return 1 if problems else 0


def named(root: Path) -> Iterator[str]:
    """Yield each page of docs/ that a file names and that is not there, as `file:line: page`."""
    files = [
        path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES
    ]
    files += [root / "Makefile", root / "pyproject.toml", *sorted(root.glob("*.md"))]
    for path in files:
        if not path.is_file() or SKIPPED & set(path.relative_to(root).parts):
            continue
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            for match in _NAMED.finditer(text):
                page, _, heading = match[0].partition("#")
                yield from _problem(root, path, line, root / page, heading)


def links(root: Path) -> Iterator[str]:
    """Yield each Markdown link that leads nowhere, as `file:line: target`."""
    folders = (root / "docs", root / "connectors")
    pages = [
        *sorted(root.glob("*.md")),
        *(page for folder in folders for page in sorted(folder.rglob("*.md"))),
    ]
    for path in pages:
        if SKIPPED & set(path.relative_to(root).parts):
            continue
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            for match in _LINK.finditer(text):
                target = path.parent / match[1] if match[1] else path
                yield from _problem(root, path, line, target, (match[2] or "").removeprefix("#"))


def headings(page: str) -> set[str]:
    """Return the names by which GitHub links to the headings of a page."""
    found = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def _problem(root: Path, path: Path, line: int, target: Path, heading: str) -> Iterator[str]:
    if not target.exists():
        yield f"{path.relative_to(root)}:{line}: there is no {target.resolve()}"
    elif heading and heading not in headings(target.read_text("utf-8")):
        yield f"{path.relative_to(root)}:{line}: {target.name} has no heading #{heading}"


if __name__ == "__main__":
    sys.exit(main())
