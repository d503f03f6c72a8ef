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
        "a stranger wrote it",
        "how many may not be looked at",
        "the server asks to be spared",
        "records that clear up",
        "sewn to Faust",
        "the short way",
        "we stand by",
        "an earlier life",
        "pre-looking first",
        "screened first",
        "no patience",
        "a message on its way",
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
    assert main(root) == 1
    assert "docs/page.md:3: " in capsys.readouterr().err


def test_code_names_and_questions_are_not_read(tmp_path: Path) -> None:
    module = (
        '"""Take `life` and "seam".\n\n    mend: is called.\n"""\nseam = {"mend": 1}\nSQL = "seam bigint"\n'
    )
    page = "# What it is\n\n`mend` and\n\n```\nseam\n```\n\n[how](lives.md). What is it?\nThe life of an event.\n"
    assert not list(check(checkout(tmp_path, module, page)))


@pytest.mark.parametrize("place", ["{}", "class Part:\n    {}", "def part() -> None:\n    {}"])
@pytest.mark.parametrize(
    "opening",
    [
        "Hold what",
        "Holds who",
        "Describe what",
        "Describe how",
        "Return what",
        "Return who",
        "Return whose",
        "Return how",
    ],
)
def test_no_docstring_opens_with_an_empty_verb(tmp_path: Path, place: str, opening: str) -> None:
    (found,) = check(checkout(tmp_path, place.format(f'"""{opening} it is."""') + "\n"))
    assert found.word == opening


@pytest.mark.parametrize(
    "opening", ["Is it read?", "How many there are.", "Where it lies.", "Of a topic.", "It is read."]
)
def test_the_docstring_of_a_function_opens_with_a_verb(tmp_path: Path, opening: str) -> None:
    (found,) = check(checkout(tmp_path, f'async def part() -> None:\n    """{opening}"""\n'))
    assert found.instead == "an imperative verb"


def test_no_function_claims_to_return_what_it_does_not(tmp_path: Path) -> None:
    (found,) = check(checkout(tmp_path, 'def part() -> None:\n    """Return the offsets."""\n'))
    assert found.word == "Return"


def test_nothing_is_asked_of_the_first_word_of_a_noun_phrase(tmp_path: Path) -> None:
    module = (
        '"""No clock here."""\n\n\nclass Part:\n    """All records of a topic."""\n\n'
        '    @property\n    def size(self) -> int:\n        """How large it is."""\n        return 1\n'
    )
    assert not list(check(checkout(tmp_path, module)))


def test_every_word_names_its_replacement() -> None:
    assert all(WORDS.values())
