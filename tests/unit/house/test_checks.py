"""What checks this repository notices what it is for: `make audit`, the budget, the page of rules, what pages name."""

import dataclasses
import re
from pathlib import Path
from typing import Final

import pytest

from snapkafka.config import Config
from tests.check_audit import problems
from tests.check_budget import lower, over
from tests.check_rules import PAGE, check
from tools import reference

ROOT: Final = Path(__file__).parents[3]
TABLE: Final = (
    '[tool.snapkafka.budget]\n"part/*.py" = {}  # goal 1\n"part/deep/**/*.py" = {}\n\n[other]\nx = 9\n'
)


def test_what_is_known_and_what_was_not_audited_is_listed() -> None:
    fine = {"name": "aiokafka", "version": "0.13.0", "vulns": []}
    known = fine | {"vulns": [{"id": "PYSEC-1", "fix_versions": ["0.14.0"]}]}
    skipped = [{"name": name, "skip_reason": "not on PyPI"} for name in ("snapkafka", "faust")]
    found = problems({"dependencies": [fine, known, *skipped]})
    assert found == ["aiokafka 0.13.0: PYSEC-1, fixed in 0.14.0", "faust: not audited: not on PyPI"]
    assert problems({"dependencies": []})


def test_a_folder_above_its_budget_is_named_and_the_table_only_falls(tmp_path: Path) -> None:
    part = tmp_path / "part/deep/er"
    part.mkdir(parents=True)
    (tmp_path / "part/root.py").write_text("a = 1\n\nb = 2\n")
    (part / "a.py").write_text("a = 1\n" * 5)
    (part / "a_pb2.py").write_text("a = 1\n" * 50)
    config = tmp_path / "pyproject.toml"
    config.write_text(TABLE.format(4, 4))
    assert over(tmp_path) == ["part/deep/**/*.py: 5 lines, 4 allowed"]
    lower(tmp_path)
    assert config.read_text() == TABLE.format(3, 4)


def test_a_rule_without_section_or_scenario_and_one_that_does_not_exist_are_named(tmp_path: Path) -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert check(ROOT, text) == []
    assert {"R4 has no section", "there is no rule R44"} <= {
        *check(ROOT, text.replace("## R4: ", "## R44: "))
    }
    for other in ("`r12-gone.txt`", "`r1-anyone-triggers.txt`"):
        found = check(ROOT, text.replace("`r12-the-dead.txt`", other))
        assert found == ["R12 names no scenario that opens with it"]
    (tmp_path / "snapkafka").mkdir()
    (tmp_path / "snapkafka/value.py").write_text('"""As R99 has it, and R15."""\n')
    assert "snapkafka/value.py cites R99, which is no rule" in check(tmp_path, "")


def test_links_of_pages_and_the_tests_that_they_name_are_there() -> None:
    """Of README and of the pages for contributors; Sphinx checks the links of docs/."""
    named = re.findall(
        r"tests/[\w/]+\.py", "".join(it.read_text("utf-8") for it in ROOT.glob("docs/**/*.md"))
    )
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        named += re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text("utf-8"))
    assert len(named) > 30
    generated = (ROOT / ".gitignore").read_text("utf-8").split()  # by `make docs`
    assert [it for it in named if not (ROOT / it).exists() and f"/{it}" not in generated] == []


def test_pages_are_made_of_the_code_and_what_nobody_has_described_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = reference.pages()
    assert "| `left-late` | unverifiable |" in pages["findings.md"]
    assert "| 9 | `offsets-gone` |" in pages["errors.md"]
    assert "## fork create\n" in pages["commands.md"]
    longer = dataclasses.make_dataclass("Longer", [("pause_s", float, 1.5)], bases=(Config,), frozen=True)
    longer.__doc__ = Config.__doc__
    for name, changed in (("Config", longer), ("VARIABLES", {})):
        monkeypatch.setattr(reference, name, changed)
        with pytest.raises(ValueError, match=r"pause_s|SNAPKAFKA_CACHE"):
            reference.settings_page()
        monkeypatch.undo()
