"""Code of the docs: Python parses, SQL runs on the tables of a snapshot, command lines are parsed by the commands.

tests/e2e/test_tutorial.py runs the tutorial as a whole.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError
from snapkafka.store import LocalStore
from tests.guide import PAGES, ROOT, SHELLS, TYPED, Block, blocks, inline, lines, problem, unknown
from tests.worlds.on_disk import write_snapshot

#: Of a checkout of snapkafka, until the package is published: `.[extra,extra]`, or a folder in it.
INSTALL = re.compile(r"pip install (?:'([^']+)'|(\S+))")
#: Not ours: what the sentence around it is about.
OTHERS = {"gssapi"}


def every(language: str) -> list[tuple[str, str]]:
    return [
        (f"{path.relative_to(ROOT)}", content)
        for path in PAGES
        for info, _, content in blocks(path.read_text("utf-8"))
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


def guides() -> Iterator[tuple[Path, Block]]:
    """The blocks of README and of the guides."""
    for path in PAGES:
        if path.name == "README.md" or path.parent.name == "guide":
            yield from ((path, block) for block in blocks(path.read_text("utf-8")))


def faults(path: Path, block: Block) -> list[str]:
    """What is wrong with the command lines of a block."""
    if block.language not in SHELLS:
        return []
    free = block.elsewhere or path in TYPED
    found = ((words, problem(words, free=free)) for words in lines(block))
    return [f"{path.relative_to(ROOT)}: {' '.join(words)}: {what}" for words, what in found if what]


def test_every_block_of_a_guide_has_a_language() -> None:
    """A block without one would be read by no test."""
    assert [f"{path.name}: {block.content}" for path, block in guides() if not block.language] == []


def test_every_command_line_of_a_guide_is_parsed_typed_or_marked() -> None:
    seen = [words for _, block in guides() if block.language in SHELLS for words in lines(block)]
    assert sum(words[0] == "snapkafka" for words in seen) > 25
    assert [fault for path, block in guides() for fault in faults(path, block)] == []


def test_what_is_said_to_be_typed_is_read_by_a_test() -> None:
    for page, test in TYPED.items():
        source = test.read_text("utf-8") + (ROOT / "tests" / "readme.py").read_text("utf-8")
        assert page.name in source, f"{test.name} does not read {page.name}"


def test_commands_that_a_page_mentions_exist() -> None:
    mentioned = [
        (path, shlex.split(code, comments=True))
        for path in PAGES
        for code in inline(path.read_text("utf-8"))
        if re.match(r"snapkafka [a-z-]", code)
    ]
    assert len(mentioned) > 60
    assert [
        f"{path.relative_to(ROOT)}: {' '.join(words)}" for path, words in mentioned if unknown(words)
    ] == []


def installs(text: str) -> list[str]:
    """What a page installs, block by block and mention by mention."""
    found = [block.content for block in blocks(text)] + [*inline(text)]
    places = [[one or other for one, other in INSTALL.findall(code)] for code in found]
    return [" ".join(what for what in of if what not in OTHERS) for of in places if {*of} - OTHERS]


def test_install_lines_work_from_a_checkout_and_are_there_once_per_page() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    pages = {path: installs(path.read_text("utf-8")) for path in PAGES}
    assert sum(map(len, pages.values())) > 4
    for path, found in pages.items():
        assert len(found) < 2, f"{path.name} installs more than once: {found}"
        for what in " ".join(found).split():
            folder, _, named = what.removesuffix("]").partition("[")
            assert (ROOT / folder / "pyproject.toml").is_file(), f"{path.name}: {what} is in no checkout"
            assert {*filter(None, named.split(","))} <= extras.keys(), f"{path.name}: {what}"


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
    ("info", "content", "refusal"),
    [
        ("sh", "snapkafka trigger --weit", "No such option"),
        ("console", "$ snapkafka tigger\nsnapkafka is what it prints", "No such command"),
        ("sh", "snapkafka list \\\n    --jason | head --lines 3", "No such option"),
        ("sh", "snapkafka list --json | head --lines 3", ""),
        ("sh", "snapkafka assemble", "Missing argument"),
        ("sh", "SNAPKAFKA_NAMESPACE=a snapkafka fork creat b", "No such command"),
        ("sh elsewhere", "snapkafka serve --pott 1 ...", "No such option"),
        ("cron", "15 3 * * *  shop  snapkafka drill --ap '...'", "No such option"),
        ("sh", 'snapkafka query "SELECT \\"a\\"\n  FROM b" --csv', ""),
        ("sh", "snapkafka demo --kafka-onyl", "unrecognized arguments"),
        ("sh", "python -m snapkafka.assembly --bootsrap here", "unrecognized arguments"),
        ("sh", "kafka-topics.sh --create", "typed by no test"),
        ("sh elsewhere", "kafka-topics.sh --create", ""),
        ("sh", "export A=b", ""),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(info: str, content: str, refusal: str) -> None:
    (block,) = blocks(f"```{info}\n{content}\n```\n")
    found = faults(ROOT / "docs" / "guide" / "index.md", block)
    assert len(found) == bool(refusal)
    assert refusal in "".join(found)


def test_a_mention_that_does_not_exist_is_noticed() -> None:
    assert unknown(["snapkafka", "retire", "--ap"]) == ["--ap"]
    assert unknown(["snapkafka", "fork", "creat"]) == ["creat"]
    assert unknown(["snapkafka", "retire", "--app"]) == []


def test_an_install_line_of_a_package_that_is_not_published_is_noticed() -> None:
    assert installs("`pip install gssapi`, `pip install 'snapkafka[cli]'`\n") == ["snapkafka[cli]"]
