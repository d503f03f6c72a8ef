"""Masks: what they replace, that all else stays byte for byte, and that nobody is left in clear."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import Captured
from snapkafka.recovery import Editing, Mask, Row
from snapkafka.recovery.masks import replace_field
from snapkafka.wire import headers as wire
from tests.worlds.recovery import IN, LOG, RAW, SETS, WINDOWS

Headers = tuple[tuple[str, bytes | None], ...]
HEADERS: Headers = (("trace", b"7"), ("person", b"ann"), ("trace", None))
STAMP = (wire.HEADER, wire.stamp(1, wire.tp_check(*IN), 0, 1, 0))


def row(value: bytes | None, key: bytes = b'"a"') -> Row:
    return Row(LOG, key, value)


def message(value: bytes | None = b"{}", headers: Headers = (), key: bytes | None = b"a") -> KafkaRecord:
    return KafkaRecord(*IN, 3, key, value, headers, 5)


def masked(cut: Captured, item: Any, *masks: Mask) -> Any:
    (found,) = Editing(cut, None, masks).edit([item])
    return found


# --- Fields ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a":1}', "a", '{"a":*}'),
        ('{"a":1,"b":2}', "b", '{"a":1,"b":*}'),
        ('{ "a" : {"x":[1,2]} , "b":2 }', "a", '{ "a" : * , "b":2 }'),
        ('{"a":1,"a":"2"}', "a", '{"a":*,"a":*}'),
        ('{"\\u0061":1}', "a", '{"\\u0061":*}'),
        ('{"a":{"b":1,"c":2}}', "a.b", '{"a":{"b":*,"c":2}}'),
        ('{"a.b":1,"a":{"b":2}}', "a.b", '{"a.b":*,"a":{"b":*}}'),
        ('{"a":[{"b":1},[{"b":2}],3,[],{}]}', "a.b", '{"a":[{"b":*},[{"b":*}],3,[],{}]}'),
        (
            '{"n":12345678901234567890123,"f":1.10,"a":null}',
            "a",
            '{"n":12345678901234567890123,"f":1.10,"a":*}',
        ),
        ('{"a":"\\ud800","b":"}"}', "a", '{"a":*,"b":"}"}'),
        ('{"b":{"a":1}}', "a", None),
        ('{"a":{"b":1}}', "a.c", None),
        ('{"a":"b"}', "a.b", None),
        ("{}", "a", None),
        (' { "": 1 } ', "", ' { "": * } '),
    ],
)
def test_a_field_is_replaced_where_it_stands_and_never_added(text: str, path: str, found: str | None) -> None:
    assert replace_field(text, path, "*") == found


def test_fields_that_some_rows_lack_are_masked_where_they_are(cut: Captured) -> None:
    editing = Editing(cut, None, (Mask(table="t", fields={"name": "'*'", "mail": "NULL"}),))
    rows = [row(b'{"name":"Ann","n":1}'), row(b'{"n":2}'), row(b'{"mail":"a@b","name":null}'), row(None)]
    assert [it.value for it in editing.edit(rows)] == [
        b'{"name":"*","n":1}',
        b'{"n":2}',
        b'{"mail":null,"name":"*"}',
        None,
    ]
    assert editing.masked == 2
    editing.examine(rows)
    assert [str(count) for count in editing.counts] == [
        "mask field name of table t of app app: 2 records",
        "mask field mail of table t of app app: 1 record",
    ]
    editing.raise_unmatched()


def test_a_misspelt_field_is_refused_and_not_added(cut: Captured) -> None:
    mask = Mask(table="t", fields={"name": "'*'", "nmae": "'*'"})
    rows = [row(b'{"name":"Ann"}'), row(b'{"name":"Bob"}')]
    editing = Editing(cut, None, (mask,))
    editing.examine(rows)
    with pytest.raises(BadInputError, match="nmae"):
        editing.raise_unmatched()
    allowed = Editing(cut, None, (mask,), allow_unmatched=True)
    allowed.examine(rows)
    allowed.raise_unmatched()
    assert [it.value for it in allowed.edit(rows)] == [b'{"name":"*"}'] * 2


def test_a_field_that_one_of_two_tables_has_renamed_is_named(cut: Captured) -> None:
    """Both have that name; rows of the other app show nothing of this one's."""
    other = dataclasses.replace(cut.changelogs[0], app="b", topic="b-t-changelog")
    cut = dataclasses.replace(cut, changelogs=(*cut.changelogs, other))
    theirs = Row(LOG._replace(topic=other.topic), b'"a"', b'{"name":"Ann"}')
    mask = Mask(table="t", fields={"name": "'*'"})
    editing = Editing(cut, None, (mask,))
    editing.examine([theirs])
    editing.raise_unmatched()  # the table of the first app is empty
    editing.examine([row(b'{"full_name":"Ann"}')])
    with pytest.raises(BadInputError):
        editing.raise_unmatched()


def test_a_mask_of_an_empty_table_is_refused(cut: Captured) -> None:
    editing = Editing(cut, None, (Mask(table="t", value="'*'"), Mask(topic="in", value="'*'")))
    editing.examine([row(None)])
    editing.examine([message(None)])
    with pytest.raises(BadInputError):
        editing.raise_unmatched()


def test_a_second_mask_of_a_table_leaves_the_first_in_force(cut: Captured) -> None:
    name, mail = Mask(table="t", fields={"name": "'*'"}), Mask(app="app", table="t", fields={"mail": "'*'"})
    person = row(b'{"name":"Ann","mail":"a@b"}')
    assert masked(cut, person, name, mail).value == b'{"name":"*","mail":"*"}'
    assert (
        masked(cut, person, name, Mask(table="t", value="upper(value)")).value == b'{"NAME":"*","MAIL":"A@B"}'
    )


# --- What cannot be masked -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "mask", "what"),
    [
        (row(b"\0\0\0\0\1\x06ann"), Mask(table="t", value="'*'"), "it is not text"),
        (row(b"7"), Mask(table="t", fields={"a": "1"}), "it is not a JSON object"),
        (row(b'[{"a":1}]'), Mask(table="t", fields={"a": "1"}), "it is not a JSON object"),
        (row(b'{"a":' + b"[" * 100_000), Mask(table="t", fields={"a": "1"}), "it is not a JSON object"),
        (row(b'{"a":' + b"1" * 5_000 + b"}"), Mask(table="t", fields={"a": "1"}), "it is not a JSON object"),
        (row(b'"x"', b"\xff"), Mask(table="t", value="md5(key)"), "no mask covers it"),
        (Row(SETS, b'[15,"k"]', b'[["ann"],[]]'), Mask(table="s", value="'*'"), "it would not be a set"),
        (Row(SETS, b'[15,"k"]', b'[["ann"],[]]'), Mask(table="s", fields={"a": "'*'"}), "not a JSON object"),
    ],
)
def test_what_cannot_be_masked_is_refused_with_its_reason(
    cut: Captured, item: Any, mask: Mask, what: str
) -> None:
    with pytest.raises(BadInputError, match=rf"{mask}.*{what}"):
        Editing(cut, None, (mask,)).examine([item])


def test_masks_look_at_no_keys(cut: Captured) -> None:
    """They hide nothing of keys, so those may be anything."""
    for key in (b"\0\0\0\0\0\0\0*", b"\xff", b'"\\ud800"', b'{"id":["ann"]}', b'["a",[0.0,9.9]]'):
        found = masked(cut, row(b'{"name":"Ann"}', key), Mask(table="t", fields={"name": "'*'"}))
        assert found == row(b'{"name":"*"}', key)
    window = Row(WINDOWS, b'["ann",[0.0,9.9]]', b"7")
    assert masked(cut, window, Mask(table="w", value="upper(key)")).value == b"ANN"
    sets = Row(SETS, b'[15,"k"]', b'[["ann"],[]]')
    assert masked(cut, sets, Mask(table="s", value="""'[["*"],[]]'""")).value == b'[["*"],[]]'


# --- Headers ---------------------------------------------------------------------------------------------------------


def test_headers_of_which_a_mask_says_nothing_are_refused(cut: Captured) -> None:
    mask = Mask(topic="in", value="'*'")
    with pytest.raises(BadInputError, match=r"in\[0\]"):
        Editing(cut, None, (mask,)).examine([message(headers=HEADERS)])
    assert masked(cut, message(headers=(STAMP,)), Mask(topic="in", value="'*'")).value == b"*", (
        "ours is no one's"
    )
    raw = message(headers=HEADERS)._replace(topic=RAW.topic)
    assert masked(cut, raw, mask) == raw, "no mask is of that topic"


def test_headers_are_dropped_or_kept(cut: Captured) -> None:
    record = message(b"1", (*HEADERS, STAMP))
    assert masked(cut, record, Mask(topic="in", headers="drop")).headers == (STAMP,)
    assert masked(cut, record, Mask(topic="in", headers="keep")) == record
    both = (Mask(topic="in", headers="keep"), Mask(topic="in", headers="drop"))
    assert masked(cut, record, *both).headers == (STAMP,), "what is dropped by one is dropped"
