"""V3: it never passes a state that is short, and finds what compaction took."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from snapkafka.checks import KINDS, CutView, Finding, Keeping, Weight, v3_state
from snapkafka.checks.v3_state import CLOCKS_MS, facts_of, key_facts
from snapkafka.protocol import TopicPartition
from tests.worlds.cleaned_log import EPOCH, HOUR, Changelog, captured, changelog
from tests.worlds.list_checks import v3

TP = TopicPartition("table", 0)
SEEDS = 4000


def passes(table: Changelog) -> bool:
    return not [f for f in v3(table.view, table.log) if KINDS[f.kind].weight is not Weight.NOTE]


def short(table: Changelog) -> bool:
    return table.state(table.log) != table.state(table.written)


def tables() -> list[Changelog]:
    return [changelog(random.Random(seed), 1) for seed in range(SEEDS)]


def test_what_passes_is_whole() -> None:
    seen: Counter[str] = Counter()
    for seed, table in enumerate(tables()):
        if passes(table):
            assert not short(table), f"seed {seed}: it passes, and state is missing"
            seen["passed, cleaned" if len(table.log) < len(table.written) else "passed"] += 1
        else:
            seen["short" if short(table) else "doubted, whole"] += 1
    assert min(seen.values()) > SEEDS / 50, seen
    assert len(seen) == 4


@pytest.mark.parametrize(
    "rule", ["nothing is missing", "deletions stay", "superseded", "overtaken", "first of the later"]
)
def test_each_rule_is_needed(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    """With one switched off, a state that is short passes."""
    name, broken = {
        "nothing is missing": ("_holes", lambda *given: 0),
        "deletions stay": ("_deletions_stay", lambda *given: True),
        "superseded": ("key_facts", _each_changed(superseded=True)),
        "overtaken": ("key_facts", _each_changed(overtaken=0)),
        "first of the later": ("facts_of", _changed(facts_of, first_later=None)),
    }[rule]
    monkeypatch.setattr(v3_state, name, broken)
    assert any(passes(table) and short(table) for table in tables())


def _changed(gather: Callable[..., Any], **changes: object) -> Callable[..., Any]:
    return lambda *given: gather(*given)._replace(**changes)


def _each_changed(**changes: Any) -> Callable[..., Any]:
    return lambda *given: {tp: of._replace(**changes) for tp, of in key_facts(*given).items()}


# -- each by itself --------------------------------------------------------------------------------------------------


def table_of(*writes: tuple[int, str | None, int]) -> Changelog:
    table = Changelog(TP, process=1, keeping=Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR))
    for key, value, epoch in writes:
        table.write(key, value, epoch=epoch)
    return table


def test_a_superseded_value_shows_that_the_cleaner_has_not_come_so_far() -> None:
    """Key 1 is new after the cut; that nothing of it was taken shows key 2."""
    table = table_of((2, "a", 0), (2, "b", 0), (2, "c", 0), (2, "d", 0), (1, "e", EPOCH))
    table.compact(2, drop=False)
    assert [record.offset for record in table.log] == [1, 2, 3, 4]
    assert v3(table.view, table.log) == []
    table.compact(4, drop=False)
    assert v3(table.view, table.log) == [Finding("state-overtaken", *TP, 4, a=3)], "nor does anything else"


def test_v3_a_cut_that_seems_to_lie_in_the_future_has_no_age_and_keeps_nothing() -> None:
    """A clock that is behind makes a cut look young: what is known of its age then is nothing, and not 0."""
    table = table_of((1, "a", 0), (2, "b", 0), (1, "c", EPOCH))
    del table.log[0]
    for age_ms, kinds in ((HOUR, []), (-2 * HOUR, ["state-unproven"])):
        table.keeping = Keeping(age_ms=age_ms, uncompacted_ms=24 * HOUR, tombstones_ms=24 * HOUR)
        assert [finding.kind for finding in v3(table.view, table.log)] == kinds


def test_of_a_set_every_record_counts() -> None:
    table = table_of((1, "a", 0), (1, "b", 0), (2, "c", 0), (2, "d", 0))
    del table.log[0]
    assert v3(table.view, table.log) == []
    sets = captured([table])
    sets = replace(sets, changelogs=(replace(sets.changelogs[0], sets=True),))
    assert v3(CutView(sets, {TP: table.bounds}), table.log) == [Finding("state-unproven", *TP, 4, a=1)]


def test_a_log_that_was_cut_off_at_its_beginning() -> None:
    table = table_of((1, "a", 0), (2, "b", 0))
    table.start = 1
    del table.log[0]
    assert v3(table.view, table.log) == [Finding("state-gone", *TP, 1, a=1)]


@pytest.mark.parametrize(("retained_ms", "kind"), [(3 * HOUR, "state-expired"), (3 * HOUR - 1, "state-gone")])
def test_windows_that_had_expired(retained_ms: int, kind: str) -> None:
    """A window that lives for two hours; what is gone now was older than that an hour ago, at the cut."""
    table = table_of((1, "a", 0), (2, "b", 0))
    table.start = 1
    del table.log[0]
    windows = captured([table])
    windows = replace(windows, changelogs=(replace(windows.changelogs[0], expires_ms=2 * HOUR),))
    table.keeping = Keeping(age_ms=HOUR, retained_ms=retained_ms)
    assert [finding.kind for finding in v3(CutView(windows, {TP: table.bounds}), table.log)] == [kind]


# -- where each rule draws its line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("settled_ms", "findings"), [(HOUR + CLOCKS_MS, 0), (HOUR + CLOCKS_MS - 1, 1)])
def test_clocks_may_disagree_by_so_much(settled_ms: int, findings: int) -> None:
    """An hour after the cut: as long as that, and what clocks differ by, a record has to stay, or a deletion."""
    table = table_of((1, "a", 0), (2, "b", 0), (1, "c", EPOCH))
    del table.log[0]
    table.keeping = Keeping(age_ms=HOUR, uncompacted_ms=settled_ms)
    assert len(v3(table.view, table.log)) == findings
    table = table_of((1, "a", 0), (2, "b", 0), (2, "c", 0))
    table.compact(3, drop=False)
    table.keeping = Keeping(age_ms=HOUR, tombstones_ms=settled_ms)
    assert len(v3(table.view, table.log)) == findings


# -- what a parent stands for ----------------------------------------------------------------------------------------


def delta(table: Changelog, start: int) -> CutView:
    """The parent stands for what lies below `start`."""
    return CutView(captured([table]), {TP: table.bounds}, starts={TP: start})


def test_what_a_parent_stands_for_may_be_gone() -> None:
    """Whether compaction took it or its age; and whoever wrote nothing since is not missing."""
    table = table_of((1, "a", 0), (2, "b", 0), (1, "c", 0))
    del table.log[:2]
    table.start = 2
    assert v3(delta(table, 2), table.log) == []
    assert v3(delta(table, 3), []) == []
    table.log = [table.written[1]]
    assert v3(delta(table, 3), table.log) == [], "what is still there of it does no harm"
    assert v3(delta(table, 2), table.log) == [Finding("state-last-missing", *TP, 2, 1, 2)]


def test_v3_a_deletion_that_may_be_gone_from_a_delta_leaves_its_key_in_the_state() -> None:
    """It was written after the parent's cut, and the cleaner has taken it since: the parent still has its key."""
    table = table_of((1, "a", 0), (1, None, 0), (2, "b", 0), (3, "c", 0), (2, "d", 0))
    table.compact(2, drop=False)
    del table.log[0]  # in a later round
    unproven = [Finding("state-unproven", *TP, 5, a=1)]
    assert [record.offset for record in table.log] == [2, 3, 4], "else nothing is shown"
    for since_parent_ms, tombstones_ms, uncompacted_ms, expected in (
        (20 * HOUR, 24 * HOUR, 0, []),
        (24 * HOUR, 24 * HOUR, 0, unproven),
        (24 * HOUR, 24 * HOUR, 2 * HOUR, unproven),
        (24 * HOUR, 24 * HOUR, 25 * HOUR, []),
        (24 * HOUR, 25 * HOUR, 0, []),
    ):
        table.keeping = Keeping(
            age_ms=HOUR,
            tombstones_ms=24 * HOUR,
            since_parent=Keeping(
                age_ms=since_parent_ms, tombstones_ms=tombstones_ms, uncompacted_ms=uncompacted_ms
            ),
        )
        assert v3(delta(table, 1), table.log) == expected
    assert v3(delta(table, 2), table.log) == [], "nothing is missing where the parent's state ends"


# -- global tables -------------------------------------------------------------------------------------------


def of_global(*partitions: list[tuple[int, int]], cut_short: int = -1, **changes: Any) -> list[Finding]:
    """What V3 finds of a table whose changelog partitions hold these records: hash of the key, epoch."""
    logs = [Changelog(TopicPartition("table", n), process=1, keeping=None) for n in range(len(partitions))]
    for log, records in zip(logs, partitions, strict=True):
        for key, epoch in records:
            log.write(key, "v", epoch=epoch)
    cut = captured(logs)
    cut = replace(cut, changelogs=tuple(replace(c, is_global=True, **changes) for c in cut.changelogs))
    bounds = {it.tp: replace(it.bounds, end=0) if n == cut_short else it.bounds for n, it in enumerate(logs)}
    return v3(CutView(cut, bounds), [record for log in logs for record in log.log])


def test_a_key_of_a_global_table_in_several_partitions_has_no_order_that_the_log_shows() -> None:
    """Every worker has the value that came last; which one that was nobody can say. Red writes are not of the state."""
    assert of_global([(7, 0), (7, 0)], [(8, 0), (7, 0)]) == [
        Finding("state-unordered", "table", 1, 1, a=0, b=1)
    ]
    assert KINDS["state-unordered"].weight is Weight.UNVERIFIABLE
    assert of_global([(7, 0)], [(8, 0), (7, EPOCH)]) == []
    assert of_global([(7, 0)], []) == []
    assert len(of_global([(7, 0)], [(7, 0)], [(7, 0)], cut_short=2)) == 1


def test_of_a_global_table_of_sets_two_partitions_are_enough() -> None:
    """Its keys are operations: a member that is added in one and discarded in the other has two of them."""
    assert of_global([(7, 0)], [(8, 0)], sets=True) == [Finding("state-unordered", "table", 1, 0, a=0, b=0)]
    assert of_global([(7, 0), (8, 0)], [], sets=True) == []
