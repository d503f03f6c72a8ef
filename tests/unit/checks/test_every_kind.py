"""Every kind of finding has a function on lists and a rule in Spark, of its name, and damage that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from types import ModuleType

import pytest

from snapkafka.assembly.spark.verify import rules, v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from snapkafka.checks import KINDS, Finding, bounds_findings, find, ranges
from snapkafka.checks.ranges import OF_BOUNDS
from snapkafka.checks.run import LOG_CHECKS, functions, kinds_of, name_of
from tests.spark.damaged_logs import EVERY_KIND, damaged

IN_SPARK = {"V1": v1_colour, "V2": v2_receipt, "V3": v3_state, "V4": v4_channels, "V5": v5_cause}


def has(module: ModuleType, kind: str) -> bool:
    return callable(getattr(module, name_of(kind), None))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_function_on_lists_in_the_module_of_its_check(kind: str) -> None:
    if kind in OF_BOUNDS:
        assert has(ranges, kind) or has(ranges, kind.rpartition("-")[0]), (
            "one function for all checks of a kind"
        )
    else:
        assert has(LOG_CHECKS[KINDS[kind].check], kind)


def test_every_kind_has_rules_or_a_search_in_spark_or_follows_from_the_bounds() -> None:
    by_rules = {rule.kind for rule in rules.RULES}
    by_searches = Counter(kind for search in rules.SEARCHES for kind in search.kinds)
    assert Counter([*by_rules, *by_searches.elements(), *OF_BOUNDS]) == Counter(KINDS.keys()), (
        "each by one of the three"
    )


def test_rules_and_searches_lie_in_the_module_of_their_check_and_are_named_as_their_kind() -> None:
    for check, module in IN_SPARK.items():
        made = [*getattr(module, "RULES", ()), *getattr(module, "SEARCHES", ())]
        assert all(item in (*rules.RULES, *rules.SEARCHES) for item in made), check
        for rule in getattr(module, "RULES", ()):
            assert KINDS[rule.kind].check == check
            assert rule.find.__name__.startswith(name_of(rule.kind)), "a kind may be found in several frames"
            assert has(module, rule.kind)
        for search in getattr(module, "SEARCHES", ()):
            assert {KINDS[kind].check for kind in search.kinds} == {check}
            assert module is v3_state or all(has(module, kind) for kind in search.kinds)


def test_suspects_with_one_name_are_one() -> None:
    """The pre-filter has one column for each name."""
    named = {rule.suspect.name: rule.suspect for rule in rules.RULES}
    assert all(rule.suspect is named[rule.suspect.name] for rule in rules.RULES)


def test_there_is_damage_that_the_lists_find_of_every_kind() -> None:
    snapshot = damaged(EVERY_KIND)
    log, (of_bounds, _) = snapshot.log, bounds_findings(snapshot.view)
    found: Iterable[Finding] = [*of_bounds, *(it for check in LOG_CHECKS for it in find(check, log))]
    assert {finding.kind for finding in found} == KINDS.keys()


@pytest.mark.parametrize("check", ["V1", "V2", "V4", "V5"])
def test_a_function_finds_its_own_kind_and_no_other(check: str) -> None:
    log = damaged(EVERY_KIND).log
    for kind, function in zip(kinds_of(check), functions(check), strict=True):
        assert {finding.kind for finding in function(log)} == {kind}
