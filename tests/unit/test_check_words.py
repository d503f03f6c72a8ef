"""The check of words sees each forbidden word where it is read by users, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check_words import GLOSSARY, WORDS, check, main


def checkout(root: Path, module: str = "", page: str = "") -> Path:
    (root / "snapkafka").mkdir()
    (root / "snapkafka/part.py").write_text(module)
    (root / "docs/explanation").mkdir(parents=True)
    (root / "docs/page.md").write_text(page)
    (root / GLOSSARY).write_text("| say | tell |\n")
    return root


@pytest.mark.parametrize(
    "text",
    [
        "its inputs were taken away",
        "the topic was made anew",
        "a repeat is dropped",
        "it is passed over",
        "the command mends it",
        "records are gone",
        "a stranger wrote it",
        "the manifest says so",
        "nobody can tell which",
        "how many may not be looked at",
        "'some' is no isolation",
        "the server asks to be spared",
        "what clears up",
        "sewn to Faust",
        "the short way",
        "we stand by",
        "an earlier life",
        "pre-looking first",
        "screened first",
        "no patience",
        "a message on its way",
        "What was not read is listed.",
    ],
)
def test_each_word_is_seen_in_message_docstring_and_page(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = f'"""{text}"""\nRAISED = f"{text}, {{1}}"\n'
    root = checkout(tmp_path, module, f"# Page\n\n{text}\n")
    assert {(one.path, one.line) for one in check(root)} == {
        ("snapkafka/part.py", 1),
        ("snapkafka/part.py", 2),
        ("docs/page.md", 3),
    }
    assert main(root, {}) == 1
    assert "docs/page.md:3: " in capsys.readouterr().err


def test_code_names_and_questions_are_not_read(tmp_path: Path) -> None:
    module = (
        '"""Take `told` and "gone".\n\n    told: is called.\n"""\nsay = {"gone": 1}\nSQL = "seam bigint"\n'
    )
    page = (
        "# What it is\n\n`tell` and\n\n```\nsay\n```\n\n[how](lives.md). What is it?\nThe life of an event.\n"
    )
    assert not list(check(checkout(tmp_path, module, page)))


def test_the_list_of_allowed_words_only_shrinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout(tmp_path, page="It says so.\n")
    assert main(root, {"docs/page.md": 1}) == 0
    assert main(root, {"docs/page.md": 2}) == 1
    assert main(root, {"docs/page.md": 1, "docs/other.md": 1}) == 1
    assert "docs/other.md: ALLOWED has 1 forbidden words, found 0" in capsys.readouterr().err


def test_every_word_names_its_replacement() -> None:
    assert all(WORDS.values())
