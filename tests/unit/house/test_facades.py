"""Tests import what a package exports in its `__init__`, so that a module can be moved without touching them."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
#: The move of a module touches at most so many files of tests.
FILES_MAX: Final = 8
#: What each package exports.
EXPORTED: Final = {
    path.parent.name: {
        alias.asname or alias.name
        for top in ast.parse(path.read_text()).body
        if not isinstance(top, ast.FunctionDef)
        for node in ast.walk(top)
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing")
        for alias in node.names
    }
    for path in ROOT.glob("snapkafka/*/__init__.py")
}


def module_of(name: str) -> str:
    """Return the longest beginning of a dotted name that is a module; empty: none is."""
    while name and not (ROOT / f"{name.replace('.', '/')}.py").exists():
        name = name.rpartition(".")[0]
    return name


def named(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a file of tests imports past a facade, or has as strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            exported = EXPORTED.get(node.module.removeprefix("snapkafka."), set())
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in exported)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_module_is_named_by_many_files_of_tests() -> None:
    touched: dict[str, set[str]] = defaultdict(set)
    for path in ROOT.glob("tests/**/*.py"):
        for name in named(ast.parse(path.read_text())):
            if name.startswith("snapkafka.") and (module := module_of(name)).count(".") > 1:
                touched[module].add(str(path.relative_to(ROOT)))
    assert touched, "nothing was found"
    assert {module: sorted(files) for module, files in touched.items() if len(files) > FILES_MAX} == {}
