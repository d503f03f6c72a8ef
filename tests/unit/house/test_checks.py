"""`make audit` succeeds only where packages were audited and nothing is known of them; the budget of lines fails above
its table, and its table only falls."""

from pathlib import Path

import pytest

from tests.check_audit import problems
from tests.check_budget import lower, over

FINE = {"name": "aiokafka", "version": "0.13.0", "vulns": []}
KNOWN = {**FINE, "vulns": [{"id": "PYSEC-1", "fix_versions": ["0.14.0"]}]}
OURS = {"name": "snapkafka", "skip_reason": "Dependency not found on PyPI"}
SKIPPED = {"name": "faust", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "found"),
    [
        ([FINE, OURS], []),
        ([FINE, KNOWN], ["aiokafka 0.13.0: PYSEC-1, fixed in 0.14.0"]),
        ([FINE, SKIPPED], ["faust: not audited: Dependency not found on PyPI"]),
        ([], ["no package was audited"]),
    ],
)
def test_what_is_known_and_what_was_not_audited_is_listed(packages: list[object], found: list[str]) -> None:
    assert problems({"dependencies": packages}) == found


TABLE = '[tool.snapkafka.budget]\n"package/*.py" = {}  # goal 1\n"package/part/**/*.py" = {}\n\n[tool.other]\nx = 9\n'


def test_a_folder_above_its_budget_is_named_and_the_table_only_falls(tmp_path: Path) -> None:
    part = tmp_path / "package/part/deep"
    part.mkdir(parents=True)
    (tmp_path / "package/root.py").write_text("a = 1\n\nb = 2\n")
    (part / "a.py").write_text("a = 1\n" * 5)
    (part / "a_pb2.py").write_text("a = 1\n" * 50)
    config = tmp_path / "pyproject.toml"
    config.write_text(TABLE.format(4, 4))
    assert over(tmp_path) == ["package/part/**/*.py: 5 lines, 4 allowed"]
    lower(tmp_path)
    assert config.read_text() == TABLE.format(3, 4)
    config.write_text(TABLE.format(3, 5))
    assert over(tmp_path) == []
