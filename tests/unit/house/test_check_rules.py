"""The check of the rules page sees each kind of defect that it is there for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check_rules import PAGE, ROOT, check, cited

TEXT = (ROOT / PAGE).read_text("utf-8")


def test_every_rule_has_its_place() -> None:
    assert check(ROOT, TEXT) == []
    assert cited(ROOT / "snapkafka") == []


#: The code that rule R9 names.
MOVES = "`protocol/reassignment.py`, `protocol/ownership.py`"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("## R4: ", "## Four: ", "R4 has no section"),
        ("## R4: ", "## R44: ", "there is no rule R44"),
        ("- Why: position, state", "- position, state", "R3: no line 'Why'"),
        ("`protocol/cut.py`, `protocol/worker.py`", "the cut", "R3: line 'Code' names nothing"),
        (MOVES, "`protocol/gone.py`", "R9: code protocol/gone.py does not exist"),
        (MOVES, "`protocol/_dataclass.py`", "protocol/_dataclass.py does not cite it"),
        ("`test_r4_nothing_is_held`", "`test_r4_no_such`", "R4: test test_r4_no_such does not exist"),
        ("`test_r4_nothing_is_held`", "`test_r12_a_timer_runs_out_once`", "is not named after it"),
        ("`r12-the-dead.txt`", "`r12-gone.txt`", "R12: scenario r12-gone.txt does not exist"),
        ("`r12-the-dead.txt`", "`r1-anyone-triggers.txt`", "r1-anyone-triggers.txt does not open with it"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(before: str, after: str, problem: str) -> None:
    assert before in TEXT
    assert any(problem in found for found in check(ROOT, TEXT.replace(before, after, 1)))


def test_a_rule_that_does_not_exist_is_cited_nowhere(tmp_path: Path) -> None:
    (tmp_path / "snapkafka").mkdir()
    (tmp_path / "snapkafka/value.py").write_text('"""As R99 has it, and R15."""\n')
    assert cited(tmp_path / "snapkafka") == ["snapkafka/value.py cites R99, which is no rule"]
