"""The table of rules: every kind of finding has rules or a search of its name, in the module of its check."""

from __future__ import annotations

from collections import Counter

from snapkafka.assembly.spark.verify import rules, v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from snapkafka.checks import KINDS, OF_BOUNDS, OF_STATE
from snapkafka.checks.run import name_of

IN_SPARK = {"V1": v1_colour, "V2": v2_receipt, "V3": v3_state, "V4": v4_channels, "V5": v5_cause}


def test_every_kind_has_rules_or_a_search_in_spark_or_follows_from_the_bounds_or_the_state() -> None:
    by_rules = {rule.kind for rule in rules.RULES}
    by_searches = Counter(kind for search in rules.SEARCHES for kind in search.kinds)
    assert Counter([*by_rules, *by_searches.elements(), *OF_BOUNDS, *OF_STATE]) == Counter(KINDS.keys()), (
        "each by one of the four"
    )


def test_rules_and_searches_lie_in_the_module_of_their_check_and_are_named_as_their_kind() -> None:
    for check, module in IN_SPARK.items():
        made = [*getattr(module, "RULES", ()), *getattr(module, "SEARCHES", ())]
        assert all(item in (*rules.RULES, *rules.SEARCHES) for item in made), check
        for rule in getattr(module, "RULES", ()):
            assert KINDS[rule.kind].check == check
            assert rule.find.__name__.startswith(name_of(rule.kind)), "a kind may be found in several frames"
            assert callable(getattr(module, name_of(rule.kind)))
        for search in getattr(module, "SEARCHES", ()):
            assert {KINDS[kind].check for kind in search.kinds} == {check}
            assert module is v3_state or all(
                callable(getattr(module, name_of(kind))) for kind in search.kinds
            )


def test_suspects_with_one_name_are_one() -> None:
    """The pre-filter has one column for each name."""
    named = {rule.suspect.name: rule.suspect for rule in rules.RULES}
    assert all(rule.suspect is named[rule.suspect.name] for rule in rules.RULES)
