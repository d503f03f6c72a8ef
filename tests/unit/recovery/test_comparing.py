"""A system that stands still beside a snapshot: every kind of table, every kind of damage, each by its name."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterable

import pytest

from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import AgentPosition, ChangelogCut, Rule, TopicPartition
from snapkafka.recovery import ComparedTable
from snapkafka.recovery.comparing import StateRow, compare_state
from snapkafka.recovery.comparing_inputs import (
    ChannelComparison,
    ComparedChannel,
    compare_in_flight,
    compare_positions,
)
from snapkafka.wire import headers as wire

PLAIN, SETS, WINDOWS = (TopicPartition(f"app-{name}-changelog", 0) for name in ("plain", "sets", "windows"))
OTHER = TopicPartition(PLAIN.topic, 1)
CUT = ChangelogCut(app="app", table="plain", topic=PLAIN.topic, topic_id="", partition=0, end=9, process=1)
CUTS = {
    PLAIN: CUT,
    OTHER: dataclasses.replace(CUT, partition=1),
    SETS: dataclasses.replace(CUT, table="sets", topic=SETS.topic, sets=True),
    WINDOWS: dataclasses.replace(CUT, table="windows", topic=WINDOWS.topic, windowed=True),
}
WINDOW = b'["a", [1790000000.0, 1790000009.9]]'
ROWS: tuple[StateRow, ...] = (
    (PLAIN, b'"x"', b"1"),
    (PLAIN, b'"y"', b"2"),
    (OTHER, b'"x"', b"7"),
    (SETS, b'[15,"k"]', b'[[1,2,"three"],[]]'),
    (SETS, b'[15,"empty"]', b"[[],[]]"),
    (WINDOWS, WINDOW, b"3"),
)
#: What makes these rows: partition, key, value, in order.
CHANGES: tuple[StateRow, ...] = (
    (PLAIN, b'"x"', b"0"),
    (PLAIN, b'"gone"', b"5"),
    (PLAIN, b'"x"', b"1"),
    (PLAIN, b'"gone"', None),
    (PLAIN, wire.marker_key(7), None),
    (PLAIN, b'"y"', b"2"),
    (OTHER, b'"x"', b"7"),
    (SETS, b'[1, "k"]', b"1.0"),
    (SETS, b'[15, "k"]', b"[[2, 4], []]"),
    (SETS, b'[2, "k"]', b"4"),
    (SETS, b'[1, "k"]', b'"three"'),
    (SETS, b'[1, "k"]', b'"not json'),
    (SETS, b"[1]", b"9"),
    (SETS, b'[1, "empty"]', b"9"),
    (SETS, b'[15, "empty"]', b"[[], [9]]"),
    (WINDOWS, WINDOW, b"2"),
    (WINDOWS, WINDOW, b"3"),
)


def logged(changes: Iterable[StateRow]) -> dict[TopicPartition, list[KafkaRecord]]:
    logs: dict[TopicPartition, list[KafkaRecord]] = {tp: [] for tp in CUTS}
    for tp, key, value in changes:
        logs[tp].append(KafkaRecord(*tp, len(logs[tp]), key, value, (), 1_000))
    return logs


def compared(
    rows: Iterable[StateRow] = ROWS, changes: Iterable[StateRow] = CHANGES, named: int = 20
) -> dict[str, ComparedTable]:
    logs, given = logged(changes), list(rows)
    found = compare_state(lambda: list(given), lambda tp: iter(logs[tp]), CUTS, named=named)
    return {table.table: table for table in found}


def named_in(tables: dict[str, ComparedTable]) -> dict[str, list[str]]:
    return {name: list(map(str, table.keys)) for name, table in tables.items() if not table.equal}


@pytest.mark.parametrize("seed", range(5))
def test_a_changelog_that_folds_to_the_rows_is_equal_in_whatever_order_the_rows_come(seed: int) -> None:
    rows = list(ROWS)
    random.Random(seed).shuffle(rows)
    found = compared(rows)
    assert all(table.equal for table in found.values())
    assert {name: table.rows for name, table in found.items()} == {"plain": 3, "sets": 3, "windows": 1}


@pytest.mark.parametrize(
    ("change", "table", "difference"),
    [
        ((PLAIN, b'"x"', None), "plain", 'key "x" of partition 0 is missing'),
        ((PLAIN, b'"z"', b"1"), "plain", 'key "z" of partition 0 is unexpected'),
        ((PLAIN, b'"gone"', b"5"), "plain", 'key "gone" of partition 0 is unexpected'),
        ((PLAIN, b'"y"', b"3"), "plain", 'key "y" of partition 0 is different'),
        ((PLAIN, b"\xff", b"3"), "plain", "key \\xff of partition 0 is unexpected"),
        ((OTHER, b'"x"', b"1"), "plain", 'key "x" of partition 1 is different'),
        ((SETS, b'[2,"k"]', b"2"), "sets", 'member 2 of set "k" of partition 0 is missing'),
        ((SETS, b'[1,"k"]', b"5"), "sets", 'member 5 of set "k" of partition 0 is unexpected'),
        ((SETS, b'[15,"k"]', b"[[],[1]]"), "sets", 'member 1 of set "k" of partition 0 is missing'),
        ((SETS, b'[1,"new"]', b"1"), "sets", 'member 1 of set "new" of partition 0 is unexpected'),
        ((WINDOWS, WINDOW, b"4"), "windows", f"key {WINDOW.decode()} of partition 0 is different"),
        ((WINDOWS, WINDOW, None), "windows", f"key {WINDOW.decode()} of partition 0 is missing"),
    ],
)
def test_each_damage_of_a_table_is_named_and_no_other_table(
    change: StateRow, table: str, difference: str
) -> None:
    assert named_in(compared(changes=(*CHANGES, change))) == {table: [difference]}


@pytest.mark.parametrize("place", [place for place, row in enumerate(ROWS) if row[1] != b'[15,"empty"]'])
def test_a_row_that_is_not_to_be_there_is_unexpected(place: int) -> None:
    """As one whose key is suppressed."""
    tp = ROWS[place][0]
    left = compared(row for number, row in enumerate(ROWS) if number != place)
    (found,) = (table for table in left.values() if not table.equal)
    assert found.topic == tp.topic
    assert (found.missing, found.different) == (0, 0)
    assert found.unexpected == len(found.keys) == (3 if tp == SETS else 1)


def test_one_damage_of_two_rows_that_exchange_their_values_is_found() -> None:
    """Sums of keys alone, or of values alone, are the same."""
    changes = [(PLAIN, b'"x"', b"2"), (PLAIN, b'"y"', b"1"), *CHANGES[6:]]
    assert compared(changes=changes)["plain"].different == 2


def test_all_differences_are_counted_and_so_many_are_named() -> None:
    more = [(PLAIN, b'"k%d"' % number, b"1") for number in range(50)]
    found = compared(changes=[*CHANGES, *more], named=3)["plain"]
    assert (found.unexpected, len(found.keys)) == (50, 3)


@pytest.mark.parametrize(("void", "different"), [(True, 0), (False, 1)])
def test_a_void_record_is_not_applied_and_counted(void: bool, different: int) -> None:
    """A worker with snapkafka leaves it out, so the table is equal; one without would not."""
    logs = logged((*CHANGES, (PLAIN, b'"x"', b"99")))
    last = logs[PLAIN][-1]
    tables = compare_state(
        lambda: ROWS, lambda tp: logs[tp], CUTS, is_void=lambda record: void and record is last
    )
    (found,) = (table for table in tables if table.table == "plain")
    assert (found.different, found.void) == (different, int(void))


# --- Positions ------------------------------------------------------------------------------------------------------

IN = TopicPartition("in", 0)


def at(agent: str, offset: int, *above: int) -> AgentPosition:
    return AgentPosition(app="app", agent=agent, topic="in", partition=0, offset=offset, started_above=above)


RULES = {"a": Rule(100, frozenset({103})), "b": Rule(102)}


def positions(
    expected: Iterable[AgentPosition], committed: int, rules: dict[str, Rule] | None = None
) -> list[str]:
    given = RULES if rules is None else rules
    return [str(it) for it in compare_positions(expected, {"app": {IN: committed}}, lambda app, tp: given)]


def test_agents_that_start_where_they_are_to_by_group_and_rules_do_not_differ() -> None:
    assert positions([at("a", 100, 103), at("b", 102)], 100) == []
    assert positions([at("a", 101, 103), at("b", 102)], 101) == [], "the group went on; the rules hold"
    assert positions([at("a", 104), at("b", 104)], 104) == [], "the rules are spent"
    assert positions([at("", 5)], 5, {}) == []
    assert positions([at("", 5, 5)], 6, {}) == [], "the same position, written otherwise"


@pytest.mark.parametrize(
    ("expected", "committed", "difference"),
    [
        (
            at("a", 100, 103),
            101,
            "position of agent a of app app in in[0] is 101 without 103, expected 100 without 103",
        ),
        (at("b", 102), 103, "position of agent b of app app in in[0] is 103, expected 102"),
        (at("b", 101), 100, "position of agent b of app app in in[0] is 102, expected 101"),
        (at("a", 100), 100, "position of agent a of app app in in[0] is 100 without 103, expected 100"),
        (at("c", 102), 100, "position of agent c of app app in in[0] is 100, expected 102"),
        (at("", 5), -1, "position of app app in in[0] is nothing, expected 5"),
    ],
)
def test_a_position_that_is_off_by_one_is_named(
    expected: AgentPosition, committed: int, difference: str
) -> None:
    assert positions([expected], committed) == [difference]


def test_a_group_that_has_committed_nothing_is_named() -> None:
    (found,) = compare_positions([at("a", 1)], {})
    assert (found.expected, found.found) == (1, None)


# --- Messages in flight ---------------------------------------------------------------------------------------------


def message(offset: int, value: bytes, key: bytes | None = b"k", at_ms: int = 1_000) -> KafkaRecord:
    return KafkaRecord("in", 0, offset, key, value, (("trace", b"7"), ("trace", None)), at_ms)


FLIGHT = [message(offset, b"%d" % offset) for offset in (3, 5, 6, 9)]


def again(records: Iterable[KafkaRecord], base: int = 100) -> list[KafkaRecord]:
    """The same records behind a base, stamped."""
    stamp = wire.stamp(1, wire.tp_check(*IN), 0, 40, 0)
    return [
        it._replace(offset=base + number, headers=(*it.headers, (wire.HEADER, stamp)))
        for number, it in enumerate(records)
    ]


def in_flight(unread: Iterable[KafkaRecord], **options: bool) -> ComparedChannel:
    return compare_in_flight(ChannelComparison(IN, FLIGHT, unread), **options)


def test_messages_that_lie_there_in_order_do_not_differ() -> None:
    found = in_flight(again(FLIGHT))
    assert (found.messages, found.differing) == (4, 0)
    assert found.pairs == ((3, 100), (5, 101), (6, 102), (9, 103))


def test_messages_of_equal_content_are_as_many_as_there_were() -> None:
    twins = [message(3, b"same"), message(4, b"same")]
    assert compare_in_flight(ChannelComparison(IN, twins, again(twins))).differing == 0
    found = compare_in_flight(ChannelComparison(IN, twins, again([*twins, twins[0]])))
    assert [it.kind for it in found.differences] == ["twice"]


@pytest.mark.parametrize(
    ("records", "differences"),
    [
        ([FLIGHT[0], *FLIGHT[2:]], ["message of offset 5 at the cut in in[0], key k, is missing"]),
        ([*FLIGHT, FLIGHT[1]], ["message at offset 104 in in[0], key k, is there twice"]),
        (
            [FLIGHT[1], FLIGHT[0], *FLIGHT[2:]],
            ["message at offset 100 of offset 5 at the cut in in[0], key k, is out of order"],
        ),
        (
            [*FLIGHT[1:], FLIGHT[0]],
            ["message at offset 103 of offset 3 at the cut in in[0], key k, is out of order"],
        ),
        ([*FLIGHT, message(0, b"new", None)], ["message at offset 104 in in[0], key null, is unexpected"]),
    ],
)
def test_each_damage_of_messages_is_named(records: list[KafkaRecord], differences: list[str]) -> None:
    found = in_flight(again(records))
    assert [str(it) for it in found.differences] == differences
    assert found.differing == len(differences)


@pytest.mark.parametrize(
    "altered",
    [
        FLIGHT[1]._replace(key=None),
        FLIGHT[1]._replace(key=b""),
        FLIGHT[1]._replace(value=None),
        FLIGHT[1]._replace(timestamp_ms=1_001),
        FLIGHT[1]._replace(headers=FLIGHT[1].headers[:1]),
        FLIGHT[1]._replace(headers=FLIGHT[1].headers[::-1]),
    ],
)
def test_a_message_of_which_anything_differs_is_another_one(altered: KafkaRecord) -> None:
    found = in_flight(again([FLIGHT[0], altered, *FLIGHT[2:]]))
    assert [it.kind for it in found.differences] == ["unexpected", "missing"]


def test_times_that_a_topic_or_a_record_does_not_keep_are_not_compared() -> None:
    later = [it._replace(timestamp_ms=9_999) for it in again(FLIGHT)]
    assert in_flight(later).differing == 8
    assert in_flight(later, timed=False).differing == 0
    untimed = [it._replace(timestamp_ms=-1) for it in FLIGHT]
    assert compare_in_flight(ChannelComparison(IN, untimed, later)).differing == 0
    first = [message(0, b"a", at_ms=0)]
    assert compare_in_flight(ChannelComparison(IN, first, again([message(0, b"a", at_ms=1)]))).differing == 0


@pytest.mark.parametrize("seed", range(20))
def test_of_messages_in_any_order_as_few_as_possible_are_out_of_it(seed: int) -> None:
    """Against all subsequences."""
    from itertools import combinations

    shuffled = list(FLIGHT)
    random.Random(seed).shuffle(shuffled)
    offsets = [it.offset for it in shuffled]
    longest = max(
        size for size in range(5) for some in combinations(offsets, size) if list(some) == sorted(some)
    )
    found = in_flight(again(shuffled))
    assert [it.kind for it in found.differences] == ["out of order"] * (4 - longest)
    json.dumps(dataclasses.asdict(found))
