"""Every kind of finding has a function of its name, and there is damage that it finds."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType

import pytest

from snapkafka.assembly import split_keys
from snapkafka.checks import (
    KINDS,
    LOG_CHECKS,
    OF_BOUNDS,
    OF_STATE,
    Finding,
    bounds_findings,
    find,
    ranges,
)
from snapkafka.checks.run import functions, kinds_of, name_of
from tests.spark.damaged_logs import EVERY_KIND, damaged


def has(module: ModuleType, kind: str) -> bool:
    return callable(getattr(module, name_of(kind), None))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_function_on_lists_in_the_module_of_its_check(kind: str) -> None:
    if kind in OF_BOUNDS:
        assert has(ranges, kind) or has(ranges, kind.rpartition("-")[0]), (
            "one function for all checks of a kind"
        )
    elif kind in OF_STATE:
        assert has(split_keys, kind)
    else:
        assert has(LOG_CHECKS[KINDS[kind].check], kind)


def test_there_is_damage_that_the_lists_find_of_every_kind() -> None:
    snapshot = damaged(EVERY_KIND)
    log, (of_bounds, _) = snapshot.log, bounds_findings(snapshot.view)
    found: Iterable[Finding] = [*of_bounds, *(it for check in LOG_CHECKS for it in find(check, log))]
    crowded = {f"crowded-{check}" for check in ("V1", "V2", "V4", "V5")}  # of a limit, not of damage
    assert {finding.kind for finding in found} == KINDS.keys() - OF_STATE - crowded


@pytest.mark.parametrize("check", ["V1", "V2", "V4", "V5"])
def test_a_function_finds_its_own_kind_and_no_other(check: str) -> None:
    log = damaged(EVERY_KIND).log
    for kind, function in zip(kinds_of(check), functions(check), strict=True):
        assert {finding.kind for finding in function(log)} == {kind}
