"""The check of docs/evidence/claims.md sees each kind of defect that it is there for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "check_claims.py"

TESTS = """
import unittest
import pytest

def test_good(): ...
async def test_async(): ...
@pytest.mark.parametrize("x", [1])
def test_parametrized(x): ...
def helper(): ...
@pytest.mark.skip(reason="later")
def test_skipped(): ...
@pytest.mark.skipif(True, reason="later")
def test_skipped_if(): ...
@pytest.mark.xfail
def test_expected_to_fail(): ...
def test_skips_inside():
    if helper():
        pytest.skip("no broker")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.skip)])
def test_parameter_skipped(x): ...

class TestGroup:
    def test_method(self): ...
@unittest.skip("later")
class TestSkipped:
    def test_method(self): ...
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project with one test module, one benchmark, and no claims yet."""
    for folder in ("docs/evidence", "tests/bench"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/test_x.py").write_text(TESTS)
    (tmp_path / "tests/test_off.py").write_text(
        "import pytest\npytestmark = pytest.mark.skip\ndef test_a(): ...\n"
    )
    (tmp_path / "tests/bench/speed.py").write_text("def bench_cut(): ...\ndef helper(): ...\n")
    (tmp_path / "tests/check_claims.py").write_bytes(CHECK.read_bytes())
    return tmp_path


def run(checkout: Path, *shown_by: str) -> tuple[int, str]:
    """Write a claim for each of `shown_by` and check them, as `make lint` does."""
    rows = "".join(f"| it works | {cell} |\n" for cell in shown_by)
    (checkout / "docs/evidence/claims.md").write_text(
        f"# Claims\n\n| claim | shown by |\n|---|---|\n{rows}\nThat is all.\n"
    )
    script = checkout / "tests/check_claims.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "shown_by",
    [
        "`tests/test_x.py::test_good`",
        "`tests/test_x.py::test_async`, `tests/test_x.py::test_parametrized`",
        "`tests/test_x.py::TestGroup::test_method` and `bench:cut`",
    ],
)
def test_accepts_what_exists(checkout: Path, shown_by: str) -> None:
    assert run(checkout, shown_by) == (0, "")


@pytest.mark.parametrize(
    ("shown_by", "says"),
    [
        ("`tests/test_x.py::test_gone`", "does not exist"),
        ("`tests/test_gone.py::test_good`", "does not exist"),
        ("`tests/test_x.py::TestGroup::test_gone`", "does not exist"),
        ("`tests/test_x.py::helper`", "is not a test"),
        ("`tests/test_x.py::test_skipped`", "is skipped"),
        ("`tests/test_x.py::test_skipped_if`", "is skipped"),
        ("`tests/test_x.py::test_expected_to_fail`", "is skipped or expected to fail"),
        ("`tests/test_x.py::test_skips_inside`", "is skipped"),
        ("`tests/test_x.py::test_parameter_skipped`", "is skipped"),
        ("`tests/test_x.py::TestSkipped::test_method`", "is skipped"),
        ("`tests/test_off.py::test_a`", "is skipped"),
        ("`bench:gone`", "is no benchmark"),
        ("`bench:helper`", "is no benchmark"),
        ("`make test`", "is neither"),
        ("a person who looked", "nothing shows the claim"),
    ],
)
def test_refuses_each_defect_by_name(checkout: Path, shown_by: str, says: str) -> None:
    status, problems = run(checkout, "`tests/test_x.py::test_good`", shown_by)
    assert status == 1
    assert says in problems
    assert problems.count("\n") == 1
    assert "line 6" in problems
    assert shown_by.strip("`") in problems or "nothing shows" in problems


def test_refuses_a_table_without_rows(checkout: Path) -> None:
    assert run(checkout) == (1, "docs/evidence/claims.md: has no table with rows\n")


def test_refuses_to_find_no_claims_at_all(checkout: Path) -> None:
    script = checkout / "tests/check_claims.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (1, "docs/evidence/claims.md: does not exist\n")
