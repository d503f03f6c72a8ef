"""V3: it never passes a state that is short, and finds what compaction took."""

import random
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from snapkafka.checks import KINDS, CutView, Finding, Keeping, Weight, v3_state
from snapkafka.checks.log import NO_END
from snapkafka.checks.v3_state import CLOCKS_MS, facts_of, key_facts
from snapkafka.protocol import TopicPartition
from tests.worlds.cleaned_log import EPOCH, HOUR, Changelog, captured, changelog
from tests.worlds.list_checks import said, v3

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
        "first of the later": ("facts_of", _changed(facts_of, first_later=NO_END)),
    }[rule]
    monkeypatch.setattr(v3_state, name, broken)
    assert any(passes(table) and short(table) for table in tables())


def _changed(gather: Callable[..., Any], **changes: object) -> Callable[..., Any]:
    return lambda *given: gather(*given)._replace(**changes)


def _each_changed(**changes: Any) -> Callable[..., Any]:
    return lambda *given: {tp: of._replace(**changes) for tp, of in key_facts(*given).items()}


# -- each by itself --------------------------------------------------------------------------------------------------

KEPT = Keeping(age_ms=HOUR, tombstones_ms=24 * HOUR)
BEHIND = -2 * HOUR  # a clock that is behind makes a cut look young
#: An hour after the cut: as long as that, and what clocks differ by, a record has to stay, or a deletion.
LONG = HOUR + CLOCKS_MS
#: A window lives for two hours; what is gone after that and an hour was older at the cut.
EXPIRED = Keeping(age_ms=HOUR, retained_ms=3 * HOUR)
UNPROVEN = "state-unproven table@5 a1"


def kept_since_parent(age_ms: int, tombstones_ms: int, uncompacted_ms: int = 0) -> Keeping:
    since = Keeping(age_ms=age_ms, tombstones_ms=tombstones_ms, uncompacted_ms=uncompacted_ms)
    return replace(KEPT, since_parent=since)


class Case(NamedTuple):
    """Writes, each a key and a value (`-` deletes, `*`: after the cut); the offsets that are gone by now, up to where
    the log was cut off, and what V3 finds. `parent`: it stands for the offsets below."""

    writes: str
    gone: Collection[int]
    found: str
    keeping: Keeping = KEPT
    start: int = 0
    parent: int = 0
    expires_ms: int = 0
    sets: bool = False


CASES = {
    "a superseded value shows how far the cleaner came": Case("2a 2b 2c 2d 1e*", {0}, ""),
    "nothing does": Case("2a 2b 2c 2d 1e*", {0, 1, 2}, "state-overtaken table@4 a3"),
    "of a set every record counts": Case("1a 1b 2c 2d", {0}, "state-unproven table@4 a1", sets=True),
    "of no set": Case("1a 1b 2c 2d", {0}, ""),
    "cut off": Case("1a 2b", {0}, "state-gone table@1 a1", start=1),
    "cut off, and had expired": Case(
        "1a 2b", {0}, "state-expired table@1 a1", EXPIRED, start=1, expires_ms=2 * HOUR
    ),
    "cut off, and may not have expired": Case(
        "1a 2b",
        {0},
        "state-gone table@1 a1",
        replace(EXPIRED, retained_ms=3 * HOUR - 1),
        start=1,
        expires_ms=2 * HOUR,
    ),
    "young": Case("1a 2b 1c*", {0}, "", replace(KEPT, uncompacted_ms=24 * HOUR)),
    "of the future": Case(
        "1a 2b 1c*", {0}, "state-unproven table@2 a1", replace(KEPT, age_ms=BEHIND, uncompacted_ms=24 * HOUR)
    ),
    "uncompacted, clocks": Case("1a 2b 1c*", {0}, "", Keeping(age_ms=HOUR, uncompacted_ms=LONG)),
    "not long enough": Case(
        "1a 2b 1c*", {0}, "state-unproven table@2 a1", Keeping(age_ms=HOUR, uncompacted_ms=LONG - 1)
    ),
    "deletions stay, clocks": Case("1a 2b 2c", {1}, "", Keeping(age_ms=HOUR, tombstones_ms=LONG)),
    "deletions may not": Case(
        "1a 2b 2c", {1}, "state-unproven table@3 a1", Keeping(age_ms=HOUR, tombstones_ms=LONG - 1)
    ),
    "what a parent stands for may be gone": Case("1a 2b 1c", {0, 1}, "", start=2, parent=2),
    "whoever wrote nothing since is not missing": Case("1a 2b 1c", {0, 1, 2}, "", start=2, parent=3),
    "what is still there of it does no harm": Case("1a 2b 1c", {0, 2}, "", start=2, parent=3),
    "the last one since the parent": Case(
        "1a 2b 1c", {0, 2}, "state-last-missing table@2 1#2", start=2, parent=2
    ),
    # Key 1 was deleted after the parent's cut, and the cleaner has taken that since: the parent still has the key.
    **{
        f"a deletion since the parent: {keeping.since_parent}": Case(
            "1a 1- 2b 3c 2d", {0, 1}, found, keeping, parent=1
        )
        for keeping, found in (
            (kept_since_parent(20 * HOUR, 24 * HOUR), ""),
            (kept_since_parent(24 * HOUR, 24 * HOUR), UNPROVEN),
            (kept_since_parent(24 * HOUR, 24 * HOUR, 2 * HOUR), UNPROVEN),
            (kept_since_parent(24 * HOUR, 24 * HOUR, 25 * HOUR), ""),
            (kept_since_parent(24 * HOUR, 25 * HOUR), ""),
        )
    },
    "a deletion where the parent's state ends": Case(
        "1a 1- 2b 3c 2d", {0, 1}, "", kept_since_parent(24 * HOUR, 24 * HOUR), parent=2
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_missing_is_found(case: Case) -> None:
    table = Changelog(TP, process=1, keeping=case.keeping, start=case.start)
    for write in case.writes.split():
        value = None if write[1] == "-" else write[1]
        table.write(int(write[0]), value, epoch=EPOCH if write.endswith("*") else 0)
    cut = captured([table])
    cut = replace(cut, changelogs=(replace(cut.changelogs[0], expires_ms=case.expires_ms, sets=case.sets),))
    view = CutView(cut, {TP: table.bounds}, starts={TP: case.parent} if case.parent else {})
    found = v3(view, [it for it in table.log if it.offset not in case.gone])
    assert [*map(said, found)] == [case.found] * bool(case.found)


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
