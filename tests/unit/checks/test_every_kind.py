"""There is damage of every kind, and the checks find it."""

from __future__ import annotations

from snapkafka.checks import KINDS, LOG_CHECKS, OF_STATE, bounds_findings, find
from tests.spark.damaged_logs import EVERY_KIND, damaged


def test_there_is_damage_that_the_checks_find_of_every_kind() -> None:
    snapshot = damaged(EVERY_KIND)
    found = {finding.kind for finding in bounds_findings(snapshot.view)}
    for check in LOG_CHECKS:
        of_check = {finding.kind for finding in find(check, snapshot.log)}
        assert {KINDS[kind].check for kind in of_check} == {check}
        found |= of_check
    crowded = {f"crowded-{check}" for check in ("V1", "V2", "V4", "V5")}  # of a limit, not of damage
    assert found == KINDS.keys() - OF_STATE - crowded
