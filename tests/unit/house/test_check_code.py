"""The check of what linters do not know sees each kind of defect, and hints and meanings are short, too."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from snapkafka.errors import all_errors
from tests.check_code import CHARS_MAX, ROOT, check, messages


def test_messages_are_found() -> None:
    sources = [path.read_text("utf-8") for path in (ROOT / "snapkafka" / "ops").rglob("*.py")]
    assert sum(len(list(messages(list(ast.walk(ast.parse(source)))))) for source in sources) > 50


@pytest.mark.parametrize(
    ("folder", "source", "what"),
    [
        ("ops", f"raise BadInputError('{'x' * 101}')", "1: a message of one line and 100 characters"),
        ("ops", f"raise BadInputError('no', hint=f'{'x' * 96}{{value}}')", "1: a message of one line"),
        ("ops", f"raise BadInputError('no' if short else '{'x' * 101}')", "1: a message of one line"),
        ("ops", "\nRefusal(what='two\\nlines')", "2: a message of one line"),
        ("ops", f"raise BadInputError(f'{'x' * 95}{{value}}')", ""),
        ("sim", f"raise BadInputError('{'x' * 101}')", ""),
        ("sim", "assert found.pop() == 1", "1: an assert that may do something: found.pop()"),
        ("ops", "assert (at := 1)", "1: an assert that may do something: (at := 1)"),
        ("ops", "assert isinstance(at, int) and len(found) == 1", ""),
    ],
)
def test_a_defect_is_found_and_named(tmp_path: Path, folder: str, source: str, what: str) -> None:
    path = tmp_path / "package" / folder / "a.py"
    path.parent.mkdir(parents=True)
    path.write_text(source, "utf-8")
    found = list(check(tmp_path / "package"))
    assert len(found) == bool(what)
    assert "".join(found).startswith(f"package/{folder}/a.py:{what}" if what else "")


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.code)
def test_the_hint_and_the_meaning_of_an_error_are_short(error: type) -> None:
    assert 0 < len(error.hint) <= CHARS_MAX  # type: ignore[attr-defined]
    assert 0 < len(error.meaning) <= CHARS_MAX  # type: ignore[attr-defined]
