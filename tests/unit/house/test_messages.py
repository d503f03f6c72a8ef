"""Messages: an error is a line that a person reads at once, and a line that states what to do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka.errors import all_errors

PACKAGE = Path(__file__).parents[3] / "snapkafka"
#: What a message is given as: of an error the first argument, of what is named in a list these.
KEYWORDS = {"hint", "what", "do"}
OTHERS = {"Refusal", "Advice", "Shortfall"}
#: What only developers of snapkafka meet.
DEVELOPERS = {"sim", "testing"}
CHARS_MAX = 100
#: A value in a message counts as so many characters.
VALUE_CHARS = 5


def text(node: ast.expr) -> str:
    """Return the text of a message, with so many dots for each value."""
    match node:
        case ast.Constant(value=str() as value):
            return value
        case ast.JoinedStr(values=values):
            return "".join(text(part) or "." * VALUE_CHARS for part in values)
        case ast.IfExp(body=body, orelse=other):
            return max(text(body), text(other), key=len)
    return ""


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield each message of a file with its line."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name.endswith("Error") or name in OTHERS:
            named = [keyword.value for keyword in node.keywords if keyword.arg in KEYWORDS]
            yield from ((part.lineno, text(part)) for part in (*node.args[:1], *named))


def test_a_message_is_a_short_line() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in DEVELOPERS]
    found = {(path, line): said for path in paths for line, said in messages(path.read_text("utf-8"))}
    assert len([said for said in found.values() if said]) > 300
    long = [f"{path}:{line}: {said}" for (path, line), said in found.items() if len(said) > CHARS_MAX]
    assert long == []
    assert not [said for said in found.values() if "\n" in said]


@pytest.mark.parametrize("error", all_errors(), ids=lambda error: error.code)
def test_the_hint_and_the_meaning_of_an_error_are_short(error: type) -> None:
    assert 0 < len(error.hint) <= CHARS_MAX  # type: ignore[attr-defined]
    assert 0 < len(error.meaning) <= CHARS_MAX  # type: ignore[attr-defined]
