"""Code of the docs: Python parses, SQL runs on the tables of a snapshot, the commands parse command lines, and the page
about drivers shows the loop that is there."""

import argparse
import ast
import contextlib
import importlib
import inspect
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from markdown_it import MarkdownIt
from typer.main import get_command

from snapkafka import ops
from snapkafka.checks import CHECKS
from snapkafka.cli import app
from snapkafka.drivers import MachineDriver
from snapkafka.errors import BadInputError
from snapkafka.protocol import actions
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
#: Where a command ends in a shell.
ENDS: Final = {"|", ">", ">>", "&&", "||", ";"}


def every(*languages: str) -> list[tuple[str, str, str]]:
    """The blocks of code in these languages: page, language, text. "": code within sentences and tables."""
    found = []
    for path in PAGES:
        for token in MarkdownIt().enable("table").parse(path.read_text("utf-8")):
            for part in (token, *(token.children or ())):
                language = part.info.partition(" ")[0]
                if part.type in ("fence", "code_inline") and language in languages:
                    found.append((str(path.relative_to(ROOT)), language, part.content))
    return found


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


def within(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, None if there is none, and its arguments."""
    command, rest = COMMANDS, words[1:]
    while rest and not rest[0].startswith("-") and hasattr(command, "commands"):
        command = command.commands.get(rest.pop(0))
    return command, rest


def refused(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Why a command refuses its arguments; empty: it takes them. Nothing is run."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *args: Any) -> None:
        parse(self, *args)
        raise SystemExit(0)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if words[0] == "python":
                importlib.import_module(MODULES[words[2]]).main(words[3:])
                return "it parsed nothing"
            command, arguments = within(words)
            if command is None:
                return "no such command"
            command.make_context("snapkafka", arguments)
        except SystemExit as ended:
            return f"exit status {ended.code}" if ended.code else ""
        except Exception as error:
            if type(error).__name__ not in ("Exit", "NoArgsIsHelpError"):  # --help, --version
                return f"{type(error).__name__} {error}"
    return ""


def test_python_compiles_and_json_is_json() -> None:
    assert len(every("python")) > 5
    for page, language, text in every("python", "json"):
        try:
            ast.parse(text) if language == "python" else json.loads(text)
        except (SyntaxError, ValueError) as error:
            pytest.fail(f"{page}: {error}\n{text}")


def test_command_lines_are_those_of_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(page, words) for page, of, text in every("sh", "console", "cron") for words in lines(of, text)]
    assert len(found) > 25
    faults = [(page, " ".join(words), refused(words, monkeypatch)) for page, words in found]
    assert [fault for fault in faults if fault[2]] == []
    (right,) = lines("sh", 'snapkafka query "SELECT \\"a\\"\n  FROM b" --csv')
    assert refused(right, monkeypatch) == ""
    wrong = {"snapkafka trigger --weit": "sh", "$ snapkafka tigger\nsnapkafka is what it prints": "console"}
    wrong |= {"snapkafka assemble": "sh", "python -m snapkafka.sim --sed 3": "sh"}
    wrong |= {"15 3 * * *  shop  snapkafka drill --ap '...'": "cron"}
    noticed = [bool(refused(words, monkeypatch)) for text, of in wrong.items() for words in lines(of, text)]
    assert noticed == [True] * len(wrong)


def test_commands_and_options_that_a_sentence_mentions_exist() -> None:
    mentioned = [(page, text) for page, _, text in every("") if re.match(r"snapkafka [a-z]", text)]
    assert len(mentioned) > 40
    for page, text in mentioned:
        command, words = within(shlex.split(text, comments=True))
        options = {it for each in getattr(command, "params", ()) for it in (*each.opts, *each.secondary_opts)}
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert command is not None and named <= options | {"--help"}, (page, text)


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


def test_the_page_about_verdicts_has_the_sentences_of_the_checks() -> None:
    text = (ROOT / "docs/explanation/verification.md").read_text("utf-8")
    rows = [f"| **{kind} {title}** | {says} |" for kind, (title, says) in CHECKS.items()]
    assert [row for row in rows if row not in text] == []


# -- docs/explanation/drivers.md ------------------------------------------------------------------------------


def test_the_page_about_drivers_has_the_whole_loop_and_an_example_that_takes_part_in_a_snapshot(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "docs/explanation/drivers.md").read_text("utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    exec(compile("\n".join(code), "drivers.md", "exec"), {})
    loop, printed = re.findall(r"^```\n((?:def feed|monday ).*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out == printed
    kinds = vars(actions).items()
    names = {name for name, kind in kinds if getattr(kind, "__module__", "") == actions.__name__}
    assert len(names) > 6
    shown = [*names, *(f"{hook}(" for hook in MachineDriver.__abstractmethods__)]
    assert [it for it in shown if it not in loop] == []
    assert "return self.do(actions, us=" in inspect.getsource(MachineDriver.feed), "as the page has it"
