"""Code blocks of the docs: Python parses, SQL runs on the tables of a snapshot, commands exist with their options.

tests/e2e/test_tutorial.py runs the tutorial as a whole.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from typer.main import get_command

from snapkafka import ops
from snapkafka.cli.verbs import app
from snapkafka.errors import BadInputError
from snapkafka.store import LocalStore
from tests.worlds.on_disk import write_snapshot

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]
#: What stands in a shell where a command ends.
ENDS = {"|", ">", ">>", "&&", "||", ";", "#", "..."}


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a page: language ("" if none is given) and content."""
    for token in MarkdownIt().parse(text):
        if token.type == "fence":
            yield token.info.split(" ")[0], token.content


def commands(content: str) -> Iterator[list[str]]:
    """The words of each `snapkafka` command of a block, as a shell has them; placeholders in brackets are left out."""
    joined = re.sub(r"\\\n\s*", " ", content)
    for found in re.finditer(
        r"""^(?:\$ )?(snapkafka (?:[^"'\n]|"(?:\\"|[^"])*"|'[^']*')+)""", joined, re.MULTILINE
    ):
        yield shlex.split(found[1].replace("[", " ").replace("]", " "), comments=True)


def wrong(words: list[str]) -> list[str]:
    """The words of a command that the command line does not know."""
    name, rest = words[1], words[2:]
    if name.startswith("-"):
        return [] if name in ("--version", "--help") else [name]
    if name not in COMMANDS:
        return [name]
    if name == "demo":
        return []  # takes the options of `python -m snapkafka.demo`
    command = COMMANDS[name]
    if hasattr(command, "commands"):
        if not rest or rest[0] not in command.commands:
            return rest[:1] or [name]
        command = command.commands[rest[0]]
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)} | {"--help"}
    found = []
    for word in rest:
        if word in ENDS:
            break
        if word.startswith("--") and word.partition("=")[0] not in known:
            found.append(word)
    return found


def every(language: str) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}", content)
        for path in PAGES
        for info, content in blocks(path.read_text("utf-8"))
        if info == language
    ]


def test_python_compiles() -> None:
    found = every("python")
    assert len(found) > 5
    for page, content in found:
        try:
            ast.parse(content)
        except SyntaxError as error:
            pytest.fail(f"{page}: {error}\n{content}")


def test_json_is_json() -> None:
    for page, content in every("json"):
        try:
            json.loads(content)
        except ValueError as error:
            pytest.fail(f"{page}: {error}\n{content}")


def test_commands_and_their_options_exist() -> None:
    seen, problems = 0, []
    for path in PAGES:
        for _, content in blocks(path.read_text("utf-8")):
            for words in commands(content):
                seen += 1
                problems += [f"{path.relative_to(ROOT)}: {' '.join(words)}: {word}" for word in wrong(words)]
    assert seen > 30
    assert problems == []


async def test_recipes_run_on_the_tables_of_a_snapshot(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for epoch, name in enumerate(("monday", "tuesday")):
        write_snapshot(store, name, epoch, around=[], inputs=[])
    found = [(page, content) for page, content in every("sql") if ".parquet" not in content]  # no files here
    assert len(found) > 8
    for page, content in found:
        try:
            await ops.query(None, "", content, storage=str(tmp_path), unchecked=True)
        except BadInputError as error:
            pytest.fail(f"{page}: {error}\n{content}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("snapkafka trigger --weit\n", ["--weit"]),
        ("$ snapkafka tigger\n", ["tigger"]),
        ("snapkafka list \\\n    --jason | head --lines 3\n", ["--jason"]),
        ("snapkafka list --json | head --lines 3\n", []),
        ('snapkafka query "SELECT \\"a\\"\n  FROM b" --csv\n', []),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(content: str, words: list[str]) -> None:
    (found,) = commands(content)
    assert wrong(found) == words
