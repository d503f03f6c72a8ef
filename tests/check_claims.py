"""Every claim of docs/evidence/claims.md names tests or benchmarks that show it, and these exist and are not skipped.

The file has Markdown tables whose last column names, in backticks, what shows the claim of the row:
`tests/unit/test_x.py::test_y` (or `...::TestClass::test_y`), or `bench:name` for a function `bench_name` in
tests/bench. Nothing is imported: names are looked up in the syntax trees. Part of `make lint`.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).resolve().parents[1]
CLAIMS: Final = "docs/evidence/claims.md"
#: A test with one of these on it, or called in it, may pass without having run.
SKIPPING: Final = frozenset({"skip", "skipif", "skipIf", "skipUnless", "SkipTest", "xfail", "importorskip"})

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main(root: Path = ROOT) -> int:
    """Print what is wrong with the claims, one line each; 1 if anything is."""
    problems = check(root)
    for problem in problems:
        print(f"{CLAIMS}: {problem}", file=sys.stderr)
    if not problems:
        print(f"{CLAIMS}: every claim has what shows it")
    return 1 if problems else 0


def check(root: Path) -> list[str]:
    """What is wrong with the claims of the checkout at `root`: one line each, none if all is well."""
    try:
        text = (root / CLAIMS).read_text("utf-8")
    except FileNotFoundError:
        return ["does not exist"]
    rows = list(_rows(text.splitlines()))
    if not rows:
        return ["has no table with rows"]
    benches = _bench_names(root)
    problems: list[str] = []
    for line, cells in rows:
        names = re.findall(r"`([^`]+)`", cells[-1])
        if len(cells) < 2 or not names:
            problems.append(f"line {line}: nothing shows the claim {cells[0]!r}")
        for name in names:
            if problem := _problem_with(name, root, benches):
                problems.append(f"line {line}: {name} {problem}")
    return problems


def _rows(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every table row below a heading's dashes."""
    in_table = False
    for number, line in enumerate(lines, 1):
        if not line.lstrip().startswith("|"):
            in_table = False
        elif re.fullmatch(r"[\s|:-]+", line):
            in_table = True
        elif in_table:
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]


def _problem_with(name: str, root: Path, benches: frozenset[str]) -> str | None:
    if name.startswith("bench:"):
        return None if name.removeprefix("bench:") in benches else "is no benchmark of tests/bench"
    path, *inner = name.split("::")
    if not path.startswith("tests/") or not inner:
        return "is neither tests/...py::test_... nor bench:..."
    try:
        module = ast.parse((root / path).read_text("utf-8"))
    except FileNotFoundError:
        return "does not exist (no such file)"
    found: list[ast.Module | ast.ClassDef | Function] = [module]
    for part in inner:
        holder = found[-1]
        inside = [
            node for node in holder.body if isinstance(node, ast.ClassDef | Function) and node.name == part
        ]
        if not inside:
            return f"does not exist (no {part} in {path})"
        found.append(inside[-1])
    if not inner[-1].startswith("test"):
        return "is not a test (pytest runs what is named test...)"
    skipped = any(_skips(node) for node in found)
    return "is skipped or expected to fail, so it shows nothing" if skipped else None


def _skips(node: ast.Module | ast.ClassDef | Function) -> bool:
    """Whether something here skips: in the whole of a function; on a class; on the top level of a module."""
    match node:
        case ast.Module():
            # `pytestmark = ...`, or a call on its own
            return _names_skipping(
                it for it in node.body if isinstance(it, ast.Assign | ast.AnnAssign | ast.Expr)
            )
        case ast.ClassDef():
            marks = [it for it in node.body if isinstance(it, ast.Assign)]
            return _names_skipping([*node.decorator_list, *marks])
        case _:
            return _names_skipping([node])


def _names_skipping(nodes: Iterable[ast.AST]) -> bool:
    inside = (it for node in nodes for it in ast.walk(node))
    return any(
        (isinstance(it, ast.Attribute) and it.attr in SKIPPING)
        or (isinstance(it, ast.Name) and it.id in SKIPPING)
        for it in inside
    )


def _bench_names(root: Path) -> frozenset[str]:
    functions = (
        node
        for file in sorted((root / "tests" / "bench").glob("*.py"))
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, Function)
    )
    return frozenset(it.name.removeprefix("bench_") for it in functions if it.name.startswith("bench_"))


if __name__ == "__main__":
    sys.exit(main())
