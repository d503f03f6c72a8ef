"""Erased keys: found in every part of a key, a set and a header; what cannot be examined is refused by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import Captured
from snapkafka.recovery import Editing, Row, Suppression, differences
from tests.worlds.recovery import IN, LOG, SETS, WINDOWS

ANN = Suppression(keys=("ann",))
LONG = (42).to_bytes(8, "big")
AVRO = b"\0\0\0\0\1\x06ann"
Headers = tuple[tuple[str, bytes | None], ...]


def message(key: bytes | None, value: bytes | None = b"{}", headers: Headers = ()) -> KafkaRecord:
    return KafkaRecord(*IN, 3, key, value, headers, 0)


def counts(editing: Editing, *items: Any) -> list[int]:
    """What each rule has matched among them."""
    return [count.items for count in editing.examine(items)]


# --- Keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "is_erased"),
    [
        (Row(LOG, b'"ann"', b"1"), True),
        (Row(LOG, b"ann", b"1"), True),
        (Row(LOG, b'\xef\xbb\xbf"ann"', b"1"), True),  # with a byte order mark
        (Row(LOG, b'{"id":"ann","n":1}', b"1"), True),
        (Row(LOG, b'{"id":"ann","id":"bob"}', b"1"), True),  # JSON may have a name twice
        (Row(LOG, b'["eu",[{"id":"ann"}]]', b"1"), True),
        (Row(WINDOWS, b'[["eu","ann"],[0.0,59.9]]', b"1"), True),
        (Row(SETS, b'[15,["eu","ann"]]', b"[[1],[]]"), True),
        (message(b'["ann"]'), True),
        (message(b'"a\\u006en"'), True),
        (Row(LOG, b'"bob"', b'"ann"'), False),
        (Row(LOG, b'{"ann":"bob"}', b"1"), False),  # the name of a field
        (Row(LOG, b'"joann"', b"1"), False),
        (Row(LOG, b'"ann\\ud800"', b"1"), False),  # half of a surrogate pair
        (message(None), False),
        (message(b""), False),
    ],
)
def test_a_person_is_found_in_every_part_of_a_key(cut: Captured, item: Any, is_erased: bool) -> None:
    editing = Editing(cut, ANN)
    assert list(editing.edit([item])) == ([] if is_erased else [item])
    assert counts(editing, item) == [int(is_erased)]


def test_numbers_are_compared_exactly_and_prefixes_with_texts(cut: Captured) -> None:
    big = "123456789012345678901234567890"
    editing = Editing(cut, Suppression(keys=("42", big), prefixes=("ann:", "17")))
    kept = [
        Row(LOG, b"421", b"1"),
        Row(LOG, b'[1700000000,"bob"]', b"1"),  # a number within a key is not text that begins with 17
        Row(LOG, b"[true,null,4.2]", b"1"),
        Row(LOG, b'["joann:1"]', b"1"),
    ]
    lost = [
        Row(LOG, b"42", b"1"),
        Row(LOG, b'[42,"cart"]', b"1"),
        Row(LOG, f'{{"id":{big}}}'.encode(), b"1"),
        Row(LOG, b'{"id":"ann:7"}', b"1"),
        Row(LOG, b"178", b"1"),
    ]
    assert list(editing.edit(kept + lost)) == kept
    assert counts(editing, *kept, *lost) == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("suppression", "item", "what"),
    [
        (ANN, Row(LOG, LONG, b"1"), r"a key of table t of app app \(codec json\) .* it is not text"),
        (ANN, Row(LOG, AVRO, b"1"), "a key of table t .* it is not text"),
        (ANN, message(AVRO), r"a key of topic in \(codec unknown\) .* it is not text"),
        (ANN, message(b"\xff"), "a key of topic in .* it is not UTF-8"),
        (ANN, Row(LOG, b"[" * 100_000, b"1"), "a key of table t .* too large"),
        (ANN, Row(LOG, b'["ann",' + b"1" * 5_000 + b"]", b"1"), "a key of table t .* too large"),
        (
            Suppression(sql=("key = 'ann'",)),
            Row(LOG, b'"ann\\ud800"', b"1"),
            "a key of table t .* half of a surrogate pair",
        ),
        (Suppression(sql=("key = 'ann'",)), message(b"bob", AVRO), "a value of topic in .* it is not text"),
        (
            Suppression(sql=("key = 'ann'",)),
            message(b"bob", b"1", (("person", b"\xff"),)),
            "a header person of topic in .* it is not text",
        ),
        (
            Suppression(sql=("value->>'$.person' = 'ann'",)),
            message(b"bob", b'{"n":1}'),
            "is NULL for a record of topic in: that is neither yes nor no",
        ),
        (Suppression(sql=("key = 'ann'",)), message(None), "is NULL for a record of topic in"),
        (Suppression(sql=("value->>'$.person' = 'ann'",)), message(b"bob", b"no JSON"), "SQL of .* fails"),
        (Suppression(sql=("unnest([true, false])",)), message(b"bob"), "gives 2 values for 1 records"),
    ],
)
def test_what_cannot_be_examined_is_refused_by_name(
    cut: Captured, suppression: Suppression, item: Any, what: str
) -> None:
    with pytest.raises(BadInputError, match=what):
        list(Editing(cut, suppression).edit([item]))
    with pytest.raises(BadInputError, match=what):
        Editing(cut, suppression).examine([item])


def test_a_place_that_is_stated_to_be_binary_is_examined_by_its_bytes(cut: Captured) -> None:
    sql = f"key_raw = unhex('{LONG.hex()}') OR coalesce(contains(value_raw::VARCHAR, 'ann'), false)"
    editing = Editing(cut, Suppression(keys=("bob",), sql=(sql,), binary=("t", "in")))
    items: list[Any] = [
        Row(LOG, LONG, b"\xff"),
        Row(LOG, b"\xff", b"\xff"),
        Row(LOG, b'"bob"', b"1"),
        Row(LOG, b'"\\ud800"', b"1"),
        message(b"cid", AVRO),
        message(b"cid", LONG, (("trace", b"\xff"),)),
    ]
    assert list(editing.edit(items)) == [items[1], items[3], items[5]]
    with pytest.raises(BadInputError, match="table w"):
        list(editing.edit([Row(WINDOWS, LONG, b"1")]))


def test_keys_are_compared_where_values_are_no_text(cut: Captured) -> None:
    """Exact keys and prefixes say nothing of values: those need not be read for them."""
    items: list[Any] = [
        Row(LOG, b'"bob"', LONG),
        message(b"bob", AVRO, (("trace", b"\xff"),)),
        message(b"b", None),
    ]
    assert list(Editing(cut, Suppression(keys=("ann",), prefixes=("ann",))).edit(items)) == items


def test_rows_of_tables_that_are_not_restored_are_not_examined(cut: Captured) -> None:
    """A part of a snapshot is restored: the binary keys of other tables stand in nobody's way."""
    part = dataclasses.replace(cut, changelogs=cut.changelogs[1:])
    editing = Editing(part, Suppression(keys=("ann",), sql=("key = 'ann'",)))
    row = Row(LOG, LONG, b"\xff")
    assert list(editing.marked([row])) == [(row, False)]


# --- Values, headers, sets -------------------------------------------------------------------------------------------


def test_sql_finds_a_person_in_values_and_headers(cut: Captured) -> None:
    in_headers = "list_contains(headers->>'$[*].value', 'ann')"
    editing = Editing(cut, Suppression(sql=(in_headers, "coalesce(value->>'$.by' = 'ann', false)")))
    items: list[Any] = [
        message(b"bob", b"{}", (("trace", b"7"), ("person", b"ann"))),
        message(b"bob", b"{}", (("trace", b"7"), ("person", None))),
        message(b"bob", b'{"by":"ann"}'),
        message(b"bob", None),
        Row(LOG, b'"bob"', b'{"by":"ann"}'),
    ]
    assert list(editing.edit(items)) == [items[1], items[3]]
    assert counts(editing, *items) == [1, 2]


def test_sql_may_be_limited_to_a_table_or_a_topic(cut: Captured) -> None:
    """What is examined nowhere else is no NULL there: an input has empty names of table and app."""
    sql = """(table_name = 't' AND value->>'$.by' = 'ann')"""
    editing = Editing(cut, Suppression(sql=(sql,)))
    items: list[Any] = [
        Row(LOG, b'"bob"', b'{"by":"ann"}'),
        Row(WINDOWS, b'"bob"', b"7"),
        message(b"bob", b'{"by":"ann"}'),
    ]
    assert list(editing.edit(items)) == items[1:]


@pytest.mark.parametrize(
    "suppression",
    [ANN, Suppression(prefixes=("an",)), Suppression(sql=("value = '\"ann\"' OR value = '[\"ann\"]'",))],
)
def test_of_a_set_only_the_members_go_that_are_erased(cut: Captured, suppression: Suppression) -> None:
    editing = Editing(cut, suppression)
    rows = [
        Row(SETS, b'[15,"followers"]', b'[["ann","bob",["ann"],12345678901234567890123],[]]'),
        Row(SETS, b'[15,"readers"]', b'[["bob"],[]]'),
        Row(SETS, b'[15,"empty"]', b"[[],[]]"),
    ]
    kept = b'[["bob",12345678901234567890123],[]]'
    assert list(editing.edit(rows)) == [rows[0]._replace(value=kept), *rows[1:]]
    assert counts(editing, *rows) == [2]
    cuts = {SETS: next(it for it in cut.changelogs if it.sets)}
    log = [KafkaRecord(*SETS, at, row.key, row.value, (), 0) for at, row in enumerate(rows)]
    found = differences(editing.edit(rows), lambda tp: log, cuts)
    assert [(it.record.key, it.record.value) for it in found] == [
        (b'[2,"followers"]', b'"ann"'),
        (b'[2,"followers"]', b'["ann"]'),
    ], "in place they are discarded"


# --- Rules that match nothing ----------------------------------------------------------------------------------------


def test_a_rule_that_matches_nothing_is_refused_before_anything_is_written(cut: Captured) -> None:
    suppression = Suppression(keys=("ann", "bob"), prefixes=("user-",), sql=("key = 'cid'",))
    editing = Editing(cut, suppression)
    editing.examine([Row(LOG, b'"ann"', b"1"), Row(LOG, b'["ann"]', b"1")])
    editing.examine([message(b"user-7")])
    assert [str(count) for count in editing.counts] == [
        "key ann: 2 records",
        "key bob: 0 records",
        "prefix user-: 1 record",
        "sql key = 'cid': 0 records",
    ]
    assert (editing.suppressed, editing.masked) == (0, 0), "nothing was left out yet"
    with pytest.raises(BadInputError, match=r"bob.*'cid'"):
        editing.raise_unmatched()
    allowed = Editing(cut, suppression, allow_unmatched=True)
    allowed.examine([message(b"user-7")])
    allowed.raise_unmatched()
