"""The command lines of the docs, and what is wrong with one: the parsers of the commands themselves tell."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from markdown_it import MarkdownIt
from typer.main import get_command

from snapkafka.cli import app

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: Pages whose shell blocks are typed by a test, line by line, whatever the program.
TYPED: Final = {
    ROOT / "README.md": ROOT / "tests" / "e2e" / "test_readme.py",
    ROOT / "docs" / "guide" / "tutorial.md": ROOT / "tests" / "e2e" / "test_tutorial.py",
}
#: Languages of blocks with commands. `console`: those behind a `$`; the rest is what they print. `cron`: behind five
#: fields and a user.
SHELLS: Final = ("sh", "console", "cron")
#: Stands behind the language of a block of commands that need a place which is not at hand: a cluster, a company's
#: storage. Those of snapkafka among them are parsed all the same.
ELSEWHERE: Final = "elsewhere"
#: What stands in a shell where a command ends.
ENDS: Final = {"|", ">", ">>", "&&", "||", ";"}
#: Commands of a shell that need nothing.
OF_SHELL: Final = {"export", "for", "done", "do"}
COMMANDS: Any = get_command(app)


class Block(NamedTuple):
    """A block of code of a page. `language`: "" if it has none, as an indented block."""

    language: str
    elsewhere: bool
    content: str


def blocks(text: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    for token in MarkdownIt().parse(text):
        if token.type in ("fence", "code_block"):
            language, _, more = token.info.partition(" ")
            yield Block(language, more == ELSEWHERE, token.content)


def inline(text: str) -> Iterator[str]:
    """Yield the code within the sentences and tables of a page."""
    for token in MarkdownIt().enable("table").parse(text):
        yield from (part.content for part in token.children or () if part.type == "code_inline")


def lines(block: Block) -> Iterator[list[str]]:
    """Yield the words of each command of a block, as a shell has them, without variables set before it. Of a pipe or
    a list, only the first; placeholders in brackets are filled in."""
    joined = re.sub(r"\\\n\s*", " ", block.content)
    prompt = r"\$ " if block.language == "console" else r"(?:\S+ +){6}" if block.language == "cron" else r" *"
    for found in re.finditer(
        rf"""^{prompt}((?:[^"'\s#](?:[^"'\n]|"(?:\\"|[^"])*"|'[^']*')*))""", joined, re.MULTILINE
    ):
        words = shlex.split(found[1].replace("[", " ").replace("]", " "), comments=True)
        while words and re.fullmatch(r"\w+=.*", words[0]):
            del words[0]
        end = next((place for place, word in enumerate(words) if word in ENDS), len(words))
        if words[:end]:
            yield words[:end]


def problem(words: list[str], *, free: bool) -> str:
    """Return what is wrong with a command; empty: nothing.

    Args:
        free: whether other programs than snapkafka are allowed: a test types them, or they need another place.
    """
    typed = [word.rstrip(";") for word in words[: -1 if words[-1] == "..." else None]]  # and more, as needed
    if typed[0] == "snapkafka":
        return refused(typed[1:])
    if typed[:2] == ["python", "-m"] and typed[2].startswith("snapkafka."):
        return refused_by_module(typed[2], typed[3:])
    if free or typed[0] in OF_SHELL or typed[:2] == ["pip", "install"]:
        return ""
    return f"{typed[0]} is typed by no test, and the block is not marked `{ELSEWHERE}`"


def refused(arguments: list[str]) -> str:
    """Return why the command line of snapkafka refuses arguments; empty: it takes them. Nothing is run."""
    if arguments[:1] == ["demo"]:
        return refused_by_module("snapkafka.demo", arguments[1:])
    command, name, parent = COMMANDS, "snapkafka", None
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            while True:
                context = command.make_context(name, list(arguments), parent=parent)
                if not hasattr(command, "commands"):
                    return ""
                name, command, arguments = command.resolve_command(
                    context, [*context._protected_args, *context.args]
                )
                parent = context
    except Exception as error:
        if type(error).__name__ in ("Exit", "NoArgsIsHelpError"):
            return ""  # --help, --version
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())


class _ParsedError(Exception):
    """The arguments are accepted."""


def refused_by_module(module: str, arguments: list[str]) -> str:
    """Return why the parser of a module, as `python -m` runs it, refuses arguments; empty: it takes them."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        parse(self, *args, **options)
        raise _ParsedError

    output = io.StringIO()
    main: Callable[[list[str]], int] = importlib.import_module(MODULES[module]).main
    try:
        with (
            patch.object(argparse.ArgumentParser, "parse_args", parsed),
            contextlib.redirect_stderr(output),
            contextlib.redirect_stdout(output),
        ):
            main(arguments)
    except _ParsedError:
        return ""
    except SystemExit:
        pass
    return output.getvalue().strip().splitlines()[-1]


#: Modules that are commands, and where their `main` is.
MODULES: Final = {
    "snapkafka.assembly": "snapkafka.assembly.command",
    "snapkafka.demo": "snapkafka.demo.__main__",
    "snapkafka.sim": "snapkafka.sim.__main__",
}


def unknown(words: list[str]) -> list[str]:
    """Return the words of a mentioned command that the command line does not know; what is left out is no fault."""
    name, rest = words[1], words[2:]
    if name.startswith("-"):
        return [] if name in ("--version", "--help") else [name]
    command = COMMANDS.commands.get(name)
    if command is None:
        return [name]
    if name == "demo":
        return []
    if hasattr(command, "commands"):
        if rest and rest[0] not in command.commands:
            return rest[:1]
        command, rest = (command.commands[rest[0]], rest[1:]) if rest else (command, rest)
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)} | {"--help"}
    return [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]
