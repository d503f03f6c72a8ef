"""Python without asserts and docstrings (`PYTHONOPTIMIZE=2`): the same traces; and no assert does anything."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

from snapkafka.errors import all_errors

PACKAGE = Path(__file__).parents[3] / "snapkafka"
#: What an assert may call: nothing here changes anything.
PURE = {"isinstance", "len", "is_dataclass", "get_origin", "must_wait"}


def printed(*arguments: str, status: int = 0) -> str:
    """What this Python prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA")}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | {"COLUMNS": "120", "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.returncode == status, done.stderr
    return done.stdout


@functools.cache
def nodes() -> dict[str, list[ast.AST]]:
    """All of the code, by file."""
    found = {
        str(path.relative_to(PACKAGE)): list(ast.walk(ast.parse(path.read_text("utf-8"))))
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    assert len(found) > 100
    return found


def test_the_command_has_its_help_and_every_exit_status() -> None:
    shown = printed("-m", "snapkafka", "help", "exit-status")
    words = " ".join(shown.split())
    for cls in all_errors():
        assert f"{cls.exit_status} {cls.code} {cls.meaning}" in words
    assert shown == printed("-m", "snapkafka.cli", "help", "exit-status")


def test_the_simulator_has_the_same_trace() -> None:
    command = ("-m", "snapkafka.sim", "--seed", "7")
    assert printed("-OO", *command) == printed(*command)


def test_every_error_says_what_it_means() -> None:
    for cls in all_errors():
        assert "meaning" in vars(cls), cls
        assert cls.meaning.endswith(".")


def test_no_assert_does_anything() -> None:
    """What an assert does besides looking is not done without asserts."""
    found = [
        f"{path}:{node.lineno}: {ast.unparse(part)}"
        for path, parts in nodes().items()
        for node in parts
        if isinstance(node, ast.Assert)
        for part in ast.walk(node.test)
        if isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        or (isinstance(part, ast.Call) and ast.unparse(part.func).rpartition(".")[2] not in PURE)
    ]
    assert found == []
