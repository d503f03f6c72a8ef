"""The check of the rules page sees what it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check_rules import PAGE, ROOT, check

TEXT = (ROOT / PAGE).read_text("utf-8")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("", "", ""),
        ("## R4: ", "## Four: ", "R4 has no section"),
        ("## R4: ", "## R44: ", "there is no rule R44"),
        ("`r12-the-dead.txt`", "`r12-gone.txt`", "R12 names no scenario that opens with it"),
        ("`r12-the-dead.txt`", "`r1-anyone-triggers.txt`", "R12 names no scenario that opens with it"),
    ],
)
def test_what_is_missing_is_named(before: str, after: str, problem: str) -> None:
    assert before in TEXT
    found = check(ROOT, TEXT.replace(before, after, 1))
    assert problem in found if problem else found == []


def test_a_rule_that_does_not_exist_is_cited_nowhere(tmp_path: Path) -> None:
    (tmp_path / "snapkafka").mkdir()
    (tmp_path / "snapkafka/value.py").write_text('"""As R99 has it, and R15."""\n')
    assert "snapkafka/value.py cites R99, which is no rule" in check(tmp_path, "")
