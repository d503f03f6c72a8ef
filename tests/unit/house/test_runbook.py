"""docs/guide/runbook.md has one line for each word that the code says, and none for a word that it does not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from snapkafka.checks import Verdict
from snapkafka.cli.event_loop import EXIT_UNREAD
from snapkafka.errors import EXIT_NOT_GOOD, EXIT_OK, all_errors
from snapkafka.protocol import records
from snapkafka.protocol.ledger_state import Status
from snapkafka.runtime.signals import CODES, exit_status

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guide" / "runbook.md").read_text()
#: The simulator's world has failures of its own, for its own tests.
SOURCES = [path for path in sorted((ROOT / "snapkafka").rglob("*.py")) if "sim" not in path.parts]
#: What makes a failure, and where in the call the code stands if it has no name there.
FAILURES = {"Failure": None, "Abort": None, "_abort_open": 2, "_white_lost": 1}
FINDINGS = {"Advice": None, "Shortfall": None, "not_examined": 0}
#: A code that is handed on was made by one of the others.
HANDED_ON = {"code", "record.code", "self.code"}

Codes = set[str]


def section(page: str, heading: str) -> list[list[str]]:
    """The rows of the table under a heading, as cells."""
    (text,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def words(page: str, heading: str, column: int = 0) -> list[str]:
    rows = section(page, heading)
    assert all(cell for row in rows for cell in row), "each line says what it means, and what to do"
    return [row[column].strip().strip("`") for row in rows]


def made(source: str, makers: dict[str, int | None]) -> Iterator[str]:
    """The codes that a module gives to what it makes.

    Raises:
        AssertionError: one is put together at run time, so nobody could list it.
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in makers:
            continue
        place = makers[name]
        given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if place is not None and len(node.args) > place:
            given.append(node.args[place])
        assert given, f"line {node.lineno}: {name} without a code"
        for value in given:
            if isinstance(value, ast.Constant):
                yield str(value.value)
            elif isinstance(value, ast.Name) and value.id.isupper():
                yield str(getattr(records, value.id))
            else:
                assert ast.unparse(value) in HANDED_ON, (
                    f"line {node.lineno}: {ast.unparse(value)} is no plain code"
                )


def all_made(makers: dict[str, int | None]) -> Codes:
    return {code for path in SOURCES for code in made(path.read_text(), makers)}


@cache
def expected() -> dict[str, Codes]:
    return {
        "Why snapshots fail": all_made(FAILURES),
        "Statuses": {status.value for status in Status},
        "Verdicts": {verdict.value for verdict in Verdict},
        "What `doctor` finds": all_made(FINDINGS),
    }


def problems(page: str) -> list[str]:
    """What the page and the code do not have in common."""
    found = []
    for heading, codes in expected().items():
        reported = words(page, heading)
        found += [f"{heading}: no line for {code}" for code in sorted(codes - set(reported))]
        found += [f"{heading}: nothing in the code says {word}" for word in reported if word not in codes]
        found += [f"{heading}: {word} has two lines" for word in set(reported) if reported.count(word) > 1]
    statuses = {(EXIT_OK, "ok"), (EXIT_NOT_GOOD, "not-good")}
    statuses |= {*((exit_status(number), code) for number, code in CODES.items()), (EXIT_UNREAD, "unread")}
    statuses |= {(cls.exit_status, cls.code) for cls in all_errors()}
    heading = "Exit statuses and error codes"
    lines = {
        (int(status), code)
        for status, code in zip(words(page, heading), words(page, heading, 1), strict=True)
    }
    found += [f"{heading}: no line for {status} {code}" for status, code in sorted(statuses - lines)]
    found += [
        f"{heading}: nothing in the code says {status} {code}" for status, code in sorted(lines - statuses)
    ]
    return found


def test_the_runbook_has_a_line_for_every_code_and_for_no_other() -> None:
    assert problems(PAGE) == []


def test_the_codes_are_really_found() -> None:
    found = expected()
    assert {"ttl", "process-lost", "input-moved", "send-failed", "marker-failed"} <= found[
        "Why snapshots fail"
    ]
    assert {"retention", "compaction", "topics-unseen", "not-installed"} <= found["What `doctor` finds"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("| `ttl` |", "| `tttl` |", ["no line for ttl", "nothing in the code says tttl"]),
        (
            "| 9 | `offsets-gone` |",
            "| 8 | `offsets-gone` |",
            ["no line for 9 offsets-gone", "says 8 offsets-gone"],
        ),
        ("| `UNVERIFIABLE` |", "| `VERIFIED` |", ["no line for UNVERIFIABLE", "VERIFIED has two lines"]),
        ("| `sets-compacted` |", "| `sets` |", ["no line for sets-compacted", "sets has two lines"]),
    ],
)
def test_a_page_that_is_wrong_is_noticed(before: str, after: str, said: list[str]) -> None:
    assert PAGE.count(before) == 1
    found = problems(PAGE.replace(before, after))
    assert len(found) == len(said)
    for sentence in said:
        assert any(sentence in problem for problem in found), (sentence, found)


def test_a_code_that_nobody_could_list_is_noticed() -> None:
    with pytest.raises(AssertionError, match="is no plain code"):
        list(made("Failure(code=f'lost-{what}', reason='x')", FAILURES))
    with pytest.raises(AssertionError, match="without a code"):
        list(made("Abort(n=1)", FAILURES))
    assert list(made("self._abort_open(1, 2, 'new', what, who)", FAILURES)) == ["new"]
