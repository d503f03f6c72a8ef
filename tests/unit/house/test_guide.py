"""Code of the docs: Python parses, SQL runs on the tables of a snapshot, command lines are parsed by the commands."""

import argparse
import ast
import contextlib
import importlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from markdown_it import MarkdownIt
from typer.main import get_command

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import BadInputError
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

ROOT: Final = Path(__file__).parents[3]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS: Final[Any] = get_command(app)
#: Modules that are commands, and where their `main` is.
MODULES: Final = {
    "snapkafka.assembly": "snapkafka.assembly.command",
    "snapkafka.sim": "snapkafka.sim.__main__",
}
#: What stands in a shell where a command ends.
ENDS: Final = {"|", ">", ">>", "&&", "||", ";"}


def every(*languages: str) -> list[tuple[str, str, str]]:
    """The blocks of code in these languages: page, language, text. "": code within sentences and tables."""
    found = []
    for path in PAGES:
        for token in MarkdownIt().enable("table").parse(path.read_text("utf-8")):
            parts = [token, *(token.children or ())]
            found += [
                (str(path.relative_to(ROOT)), part.info.partition(" ")[0], part.content)
                for part in parts
                if part.type in ("fence", "code_inline")
            ]
    return [(page, language, text) for page, language, text in found if language in languages]


def lines(language: str, block: str) -> Iterator[list[str]]:
    """The words of each command of ours in a block, without variables before it; of a pipe or a list the first."""
    joined = re.sub(r"\\\n\s*", " ", block)
    prompt = r"\$ " if language == "console" else r"(?:\S+ +){6}" if language == "cron" else r" *"
    line = rf"""^{prompt}((?:[^"'\s#](?:[^"'\n]|"(?:\\"|[^"])*"|'[^']*')*))"""
    for found in re.finditer(line, joined, re.MULTILINE):
        words = shlex.split(found[1].replace("[", " ").replace("]", " "), comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        words = words[: next((place for place, word in enumerate(words) if word in ENDS), len(words))]
        words = [word.rstrip(";") for word in (words[:-1] if words[-1:] == ["..."] else words)]  # and more
        if words[:1] == ["snapkafka"] or (words[:2] == ["python", "-m"] and words[2] in MODULES):
            yield words


class _ParsedError(Exception):
    """The arguments are accepted."""


def refused(words: list[str]) -> str:
    """Why a command refuses its arguments; empty: it takes them. Nothing is run."""
    module, arguments = ("", words[1:]) if words[0] == "snapkafka" else (words[2], words[3:])
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        if module:
            return _refused_by_module(module, arguments)
        command, name, parent = COMMANDS, "snapkafka", None
        try:
            while True:
                context = command.make_context(name, list(arguments), parent=parent)
                if not hasattr(command, "commands"):
                    return ""
                rest = [*context._protected_args, *context.args]
                name, command, arguments = command.resolve_command(context, rest)
                parent = context
        except Exception as error:
            if type(error).__name__ in ("Exit", "NoArgsIsHelpError"):
                return ""  # --help, --version
            if not hasattr(error, "format_message"):
                raise
            return str(error.format_message())


def _refused_by_module(module: str, arguments: list[str]) -> str:
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        parse(self, *args, **options)
        raise _ParsedError

    with patch.object(argparse.ArgumentParser, "parse_args", parsed):
        try:
            importlib.import_module(MODULES[module]).main(arguments)
        except _ParsedError:
            return ""
        except SystemExit as error:
            return f"exit status {error.code}"
    return "it parsed nothing"


def test_python_compiles_and_json_is_json() -> None:
    assert len(every("python")) > 5
    for page, language, text in every("python", "json"):
        try:
            ast.parse(text) if language == "python" else json.loads(text)
        except (SyntaxError, ValueError) as error:
            pytest.fail(f"{page}: {error}\n{text}")


def test_command_lines_are_those_of_the_commands() -> None:
    found = [(page, words) for page, of, text in every("sh", "console", "cron") for words in lines(of, text)]
    assert len(found) > 25
    faults = [(page, " ".join(words), refused(words)) for page, words in found]
    assert [fault for fault in faults if fault[2]] == []


def test_commands_and_options_that_a_sentence_mentions_exist() -> None:
    mentioned = [(page, text) for page, _, text in every("") if re.match(r"snapkafka [a-z]", text)]
    assert len(mentioned) > 40
    assert [(page, text) for page, text in mentioned if not _known(text)] == []


def _known(text: str) -> bool:
    command, words = COMMANDS, shlex.split(text, comments=True)[1:]
    while words and hasattr(command, "commands"):
        command = command.commands.get(words.pop(0))
    options = {
        option for item in getattr(command, "params", ()) for option in (*item.opts, *item.secondary_opts)
    }
    named = {word.partition("=")[0] for word in words if word.startswith("--")}
    return command is not None and named <= options | {"--help"}


async def test_recipes_run_on_the_tables_of_a_snapshot(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for epoch, name in enumerate(("monday", "tuesday")):
        write_snapshot(store, name, epoch, around=[], inputs=[])
    found = [(page, text) for page, _, text in every("sql") if ".parquet" not in text]  # no files here
    assert len(found) > 8
    for page, text in found:
        try:
            await ops.query(None, "", text, storage=str(tmp_path))
        except BadInputError as error:
            pytest.fail(f"{page}: {error}\n{text}")


@pytest.mark.parametrize(
    ("language", "text", "refusal"),
    [
        ("sh", "snapkafka trigger --weit", "No such option"),
        ("console", "$ snapkafka tigger\nsnapkafka is what it prints", "No such command"),
        ("sh", "snapkafka assemble", "Missing argument"),
        ("cron", "15 3 * * *  shop  snapkafka drill --ap '...'", "No such option"),
        ("sh", 'snapkafka query "SELECT \\"a\\"\n  FROM b" --csv', ""),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(language: str, text: str, refusal: str) -> None:
    (words,) = lines(language, text)
    assert refusal in refused(words) if refusal else refused(words) == ""
