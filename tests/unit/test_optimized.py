"""Python without asserts and docstrings (`PYTHONOPTIMIZE=2`): the same commands, help, statuses and traces."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from snapkafka.cli.helps import HELPS as OF_COMMANDS
from snapkafka.errors import all_errors

PACKAGE = Path(__file__).parents[2] / "snapkafka"
#: What an assert may call: nothing here changes anything.
PURE = {"isinstance", "len", "is_dataclass", "get_origin", "must_wait"}

#: Every help text that there is, by the modules that hold them.
HELPS = """
import contextlib, json, runpy, sys
import typer
from snapkafka.cli.app import app

command = typer.main.get_command(app)
for name, sub in sorted(command.commands.items()):
    print(name, "|", repr(sub.help), "|", repr(sub.epilog))
    print(sub.get_help(typer.Context(sub, info_name=name)))
for module, *arguments in json.loads(sys.argv[1]):
    sys.argv = [module, *arguments, "--help"]
    with contextlib.suppress(SystemExit):
        runpy.run_module(module, run_name="__main__")
"""
OTHERS = [
    ["snapkafka.assembly"],
    ["snapkafka.demo"],
    ["snapkafka.sim"],
    ["snapkafka.sim", "run"],
    ["snapkafka.sim", "mutate"],
    ["snapkafka.sim", "explore"],
    ["snapkafka.sim", "compare"],
]


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
    shown = printed("-OO", "-m", "snapkafka", "help", "exit-status")
    words = " ".join(shown.split())
    for cls in all_errors():
        assert f"{cls.exit_status} {cls.code} {cls.meaning}" in words
    assert shown == printed("-m", "snapkafka.cli", "help", "exit-status")


def test_every_help_is_the_same() -> None:
    command = ("-c", HELPS, json.dumps(OTHERS))
    shown = printed("-OO", *command)
    assert shown == printed(*command)
    assert "| None |" not in shown
    assert {name for name in OF_COMMANDS if " " not in name} == set(
        re.findall(r"^(\w+) \| .* \|", shown, re.MULTILINE)
    )
    assert all(f"usage: {' '.join(['python -m', *other])}" in shown for other in OTHERS[2:])


def test_the_simulator_has_the_same_trace() -> None:
    command = ("-m", "snapkafka.sim", "--seed", "7")
    assert printed("-OO", *command) == printed(*command)


def test_every_error_says_what_it_means() -> None:
    for cls in all_errors():
        assert "meaning" in vars(cls), cls
        assert cls.meaning.endswith(".")


def test_nothing_reads_a_docstring() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, parts in nodes().items()
        for node in parts
        if (isinstance(node, ast.Name) and node.id == "__doc__")
        or (isinstance(node, ast.Attribute) and node.attr in ("__doc__", "getdoc"))
    ]
    assert found == []


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
