"""`make audit` succeeds only where packages were audited and nothing is known of them."""

from __future__ import annotations

import pytest

from tests.check_audit import problems

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
