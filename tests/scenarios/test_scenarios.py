"""The golden scenarios: what is written below `----` is what comes of the commands above it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .play import played

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(path: Path, pytestconfig: pytest.Config) -> None:
    text = path.read_text(encoding="utf-8")
    found = played(text, HERE)
    if pytestconfig.getoption("--rewrite") and found != text:
        path.write_text(found, encoding="utf-8")
    else:
        assert found == text, (
            f"if this is right: pytest tests/scenarios --rewrite, and read the diff of {path.name}"
        )


def test_a_changed_line_is_noticed_and_rewriting_mends_it() -> None:
    text = (HERE / "r1-anyone-triggers.txt").read_text(encoding="utf-8")
    wrong = text.replace("P2 reports", "P2 forgets")
    assert wrong != text
    assert played(wrong, HERE) == text


@pytest.mark.parametrize("line", ["fly P1", "show", "process P1 app=a colour=red", "start P9 A[0]@0"])
def test_a_command_that_makes_no_sense_is_reported(line: str) -> None:
    with pytest.raises(AssertionError, match=line.split()[0]):
        played(f"{line}\n----\n", HERE)
