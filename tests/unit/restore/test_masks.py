"""Erased keys and masks: what they find and replace, that all else stays byte for byte, and that every doubt is
refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import Captured
from snapkafka.restore import Editing, Mask, Suppression, differences
from snapkafka.restore.rules import read_masks, read_suppression, replace_field
from snapkafka.wire import headers as wire
from tests.worlds.restore import IN, LOG, RAW, SETS, WINDOWS, row_of

ANN = Suppression(keys=("ann",))
LONG = (42).to_bytes(8, "big")
AVRO = b"\0\0\0\0\1\x06ann"
Headers = tuple[tuple[str, bytes | None], ...]
HEADERS: Headers = (("trace", b"7"), ("person", b"ann"), ("trace", None))
OF_ANN = row_of(SETS, b'[15,"k"]', b'[["ann"],[]]')
STAMP = (wire.HEADER, wire.stamp(1, wire.tp_check(*IN), 0, 1, 0))


def message(value: bytes | None = b"{}", headers: Headers = (), key: bytes | None = b"a") -> KafkaRecord:
    return KafkaRecord(*IN, 3, key, value, headers, 5)


def keyed(key: bytes | None, value: bytes | None = b"{}", headers: Headers = ()) -> KafkaRecord:
    return message(value, headers, key)


def row(value: bytes | None, key: bytes = b'"a"') -> KafkaRecord:
    return row_of(LOG, key, value)


def counts(editing: Editing, *items: Any) -> list[int]:
    """What each rule has matched among them."""
    return [count.items for count in editing.examine(items)]


# --- Erased keys ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "is_erased"),
    [
        (row_of(LOG, b'"ann"', b"1"), True),
        (row_of(LOG, b"ann", b"1"), True),
        (row_of(LOG, b'\xef\xbb\xbf"ann"', b"1"), True),  # with a byte order mark
        (row_of(LOG, b'{"id":"ann","n":1}', b"1"), True),
        (row_of(LOG, b'{"id":"ann","id":"bob"}', b"1"), True),  # JSON may have a name twice
        (row_of(LOG, b'["eu",[{"id":"ann"}]]', b"1"), True),
        (row_of(WINDOWS, b'[["eu","ann"],[0.0,59.9]]', b"1"), True),
        (row_of(SETS, b'[15,["eu","ann"]]', b"[[1],[]]"), True),
        (keyed(b'["ann"]'), True),
        (keyed(b'"a\\u006en"'), True),
        (row_of(LOG, b'"bob"', b'"ann"'), False),
        (row_of(LOG, b'{"ann":"bob"}', b"1"), False),  # the name of a field
        (row_of(LOG, b'"joann"', b"1"), False),
        (row_of(LOG, b'"ann\\ud800"', b"1"), False),  # half of a surrogate pair
        (keyed(None), False),
        (keyed(b""), False),
    ],
)
def test_a_person_is_found_in_every_part_of_a_key(cut: Captured, item: Any, is_erased: bool) -> None:
    editing = Editing(cut, ANN)
    assert list(editing.edit([item])) == ([] if is_erased else [item])
    assert counts(editing, item) == [int(is_erased)]


def sql(*texts: str) -> Suppression:
    return Suppression(sql=texts)


BIG = b"123456789012345678901234567890"
BY_ANN = b'{"by":"ann"}'
IN_BYTES = f"key_raw = unhex('{LONG.hex()}') OR coalesce(contains(value_raw::VARCHAR, 'ann'), false)"
IN_BYTES += " OR list_contains(headers->>'$[*].hex', 'fe')"
#: What is erased, the items, how many of them stay (the first), and what each rule has matched.
ITEMS: dict[str, tuple[Suppression, list[KafkaRecord], int, list[int]]] = {
    "numbers are compared exactly, and prefixes with texts": (
        Suppression(keys=("42", BIG.decode()), prefixes=("ann:", "17")),
        [
            row_of(LOG, key, b"1")
            for key in (
                b"421", b'[1700000000,"bob"]', b"[true,null,4.2]", b'["joann:1"]',
                b"42", b'[42,"cart"]', b'{"id":%s}' % BIG, b'{"id":"ann:7"}', b"178",
            )
        ],
        4, [2, 1, 1, 1],
    ),
    "what is stated to be binary is examined by its bytes": (
        Suppression(keys=("bob",), sql=(IN_BYTES,), binary=("t", "in")),
        [row_of(LOG, b"\xff", b"\xff"), keyed(b"cid", LONG, (("trace", b"\xff"),)),
         row_of(LOG, LONG, b"\xff"), row_of(LOG, b'"bob"', b"1"), keyed(b"cid", AVRO),
         keyed(b"cid", LONG, (("trace", None), ("trace", b"\xfe")))],
        2, [1, 3],
    ),
    "exact keys and prefixes say nothing of values: those need not be text": (
        Suppression(keys=("ann",), prefixes=("ann",)),
        [row_of(LOG, b'"bob"', LONG), keyed(b"bob", AVRO, (("trace", b"\xff"),)), keyed(b"b", None)],
        3, [0, 0],
    ),
    "a person in values and headers": (
        sql("list_contains(headers->>'$[*].value', 'ann')", "coalesce(value->>'$.by' = 'ann', false)"),
        [keyed(b"bob", b"{}", (("trace", b"7"), ("person", None))), keyed(b"bob", None),
         keyed(b"bob", b"{}", (("trace", b"7"), ("person", b"ann"))), keyed(b"bob", BY_ANN),
         row_of(LOG, b'"bob"', BY_ANN)],
        2, [1, 2],
    ),
    "limited to a table: what is examined nowhere else is no NULL there": (
        sql("(table_name = 't' AND value->>'$.by' = 'ann')"),
        [row_of(WINDOWS, b'"bob"', b"7"), keyed(b"bob", BY_ANN), row_of(LOG, b'"bob"', BY_ANN)],
        2, [1],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ITEMS)
def test_what_is_left_out_and_counted(cut: Captured, case: str) -> None:
    suppression, items, stay, matches = ITEMS[case]
    editing = Editing(cut, suppression)
    assert list(editing.edit(items)) == items[:stay]
    assert counts(editing, *items) == matches


@pytest.mark.parametrize(
    ("suppression", "item", "what"),
    [
        (ANN, row_of(LOG, LONG, b"1"), r"key of app-t-changelog \(codec json\) .* it is not text"),
        (ANN, row_of(LOG, AVRO, b"1"), "it is not text"),
        (ANN, keyed(AVRO), r"key of in \(codec unknown\) .* it is not text"),
        (ANN, keyed(b"\xff"), "it is not UTF-8"),
        (ANN, row_of(LOG, b"[" * 100_000, b"1"), "too large"),
        (ANN, row_of(LOG, b'["ann",' + b"1" * 5_000 + b"]", b"1"), "too large"),
        (Suppression(keys=("bob",), binary=("t", "in")), row_of(WINDOWS, LONG, b"1"), "app-w-changelog"),
        (sql("key = 'ann'"), row_of(LOG, b'"ann\\ud800"', b"1"), "surrogate"),
        (sql("key = 'ann'"), keyed(b"bob", AVRO), "a value of in .* it is not text"),
        (
            sql("key = 'ann'"),
            keyed(b"bob", b"1", (("person", b"\xff"),)),
            "a header person of in .* not text",
        ),
        (sql("value->>'$.person' = 'ann'"), keyed(b"bob", b'{"n":1}'), "is NULL for a record of in"),
        (sql("key = 'ann'"), keyed(None), "is NULL for a record of in"),
        (sql("value->>'$.person' = 'ann'"), keyed(b"bob", b"no JSON"), "SQL of .* fails"),
        (sql("unnest([true, false])"), keyed(b"bob"), "gives 2 values for 1 records"),
    ],
)
def test_what_cannot_be_examined_is_refused_by_name(
    cut: Captured, suppression: Suppression, item: Any, what: str
) -> None:
    with pytest.raises(BadInputError, match=what):
        list(Editing(cut, suppression).edit([item]))
    with pytest.raises(BadInputError, match=what):
        Editing(cut, suppression).examine([item])


@pytest.mark.parametrize(
    "suppression",
    [ANN, Suppression(prefixes=("an",)), Suppression(sql=("value = '\"ann\"' OR value = '[\"ann\"]'",))],
)
def test_of_a_set_only_the_members_go_that_are_erased(cut: Captured, suppression: Suppression) -> None:
    editing = Editing(cut, suppression)
    rows = [
        row_of(SETS, b'[15,"followers"]', b'[["ann","bob",["ann"],12345678901234567890123],[]]'),
        row_of(SETS, b'[15,"readers"]', b'[["bob"],[]]'),
        row_of(SETS, b'[15,"empty"]', b"[[],[]]"),
    ]
    kept = [row_of(SETS, b'[1,"followers"]', it) for it in (b'"bob"', b"12345678901234567890123")]
    assert list(editing.edit(rows)) == [*kept, row_of(SETS, b'[1,"readers"]', b'"bob"'), rows[2]]
    assert counts(editing, *rows) == [2]
    cuts = {SETS: next(it for it in cut.changelogs if it.sets)}
    log = [KafkaRecord(*SETS, at, row.key, row.value, (), 0) for at, row in enumerate(rows)]
    found = differences(editing.edit(rows), lambda tp: log, cuts)
    assert [(it.record.key, it.record.value) for it in found] == [
        (b'[2,"followers"]', b'"ann"'),
        (b'[2,"followers"]', b'["ann"]'),
    ], "in place they are discarded"


def test_a_rule_that_matches_nothing_is_refused_before_anything_is_written(cut: Captured) -> None:
    suppression = Suppression(keys=("ann", "bob"), prefixes=("user-",), sql=("key = 'cid'",))
    editing = Editing(cut, suppression)
    editing.examine([row_of(LOG, b'"ann"', b"1"), row_of(LOG, b'["ann"]', b"1")])
    editing.examine([keyed(b"user-7")])
    found = [(it.kind, it.rule, it.items) for it in editing.counts]
    assert found == [("key", "ann", 2), ("key", "bob", 0), ("prefix", "user-", 1), ("sql", "key = 'cid'", 0)]
    with pytest.raises(BadInputError, match=r"bob.*'cid'"):
        editing.raise_unmatched()


# --- Masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "path", "found"),
    [
        ('{"a":1,"b":2}', "b", '{"a":1,"b":9}'),
        ('{ "a" : {"x":[1,2]} , "b" : [ {"c": 2} ] }', "b.c", '{"a":{"x":[1,2]},"b":[{"c":9}]}'),
        ('{"a":1,"a":"2"}', "a", '{"a":9}'),
        ('{"\\u0061":1}', "a", '{"a":9}'),
        ('{"a":{"b":1,"c":2}}', "a.b", '{"a":{"b":9,"c":2}}'),
        ('{"a.b":1,"a":{"b":2}}', "a.b", '{"a.b":9,"a":{"b":9}}'),
        ('{"a":[{"b":1},[{"b":2}],3,[],{}]}', "a.b", '{"a":[{"b":9},[{"b":9}],3,[],{}]}'),
        ('{"n":12345678901234567890123,"f":1.10,"a":0}', "a", '{"n":12345678901234567890123,"f":1.10,"a":9}'),
        ('{"a":1,"b":"}\\u0000"}', "a", '{"a":9,"b":"}\\u0000"}'),
        ('{"b":{"a":1}}', "a", None),
        ('{"a":{"b":1}}', "a.c", None),
        ('{"a":"b"}', "a.b", None),
        ("{}", "a", None),
        (' { "": 1 } ', "", '{"":9}'),
    ],
)
def test_a_field_is_replaced_where_it_stands_and_never_added(text: str, path: str, found: str | None) -> None:
    assert replace_field(text.encode(), path, b"9") == (None if found is None else found.encode())


def test_fields_that_some_rows_lack_are_masked_where_they_are(cut: Captured) -> None:
    editing = Editing(cut, None, (Mask(table="t", fields={"name": "'*'", "mail": "NULL"}),))
    other = b'\xef\xbb\xbf{"n":2}'  # with a byte order mark
    rows = [row(b'{"name":"Ann","n":1}'), row(other), row(b'{"mail":"a@b","name":null}'), row(None)]
    assert [it.value for it in editing.edit(rows)] == [
        b'{"name":"*","n":1}',
        other,
        b'{"mail":null,"name":"*"}',
        None,
    ]
    editing.examine(rows)
    found = [(it.rule, it.items, it.place) for it in editing.counts]
    assert found == [("field name", 2, LOG.topic), ("field mail", 1, LOG.topic)]
    editing.raise_unmatched()


NAME = Mask(table="t", fields={"name": "'*'"})
VALUE = Mask(topic="in", value="'*'")
ANNS = [row(b'{"name":"Ann"}'), row(b'{"name":"Bob"}')]
#: Rows of another app's table of that name show nothing of this one's, which may have renamed the field; nor does an
#: empty table.
THEIRS = row_of(LOG._replace(topic="b-t-changelog"), b'"a"', b'{"name":"Ann"}')
UNMATCHED: dict[str, tuple[tuple[Mask, ...], list[KafkaRecord], str]] = {
    "all of it is there": ((NAME,), ANNS, ""),
    "a misspelt field": ((Mask(table="t", fields={"name": "'*'", "nmae": "'*'"}),), ANNS, "nmae"),
    "the table of the first app is empty": ((NAME,), [THEIRS], ""),
    "it has renamed the field": ((NAME,), [THEIRS, row(b'{"full_name":"Ann"}')], "name"),
    "an empty table": ((Mask(table="t", value="'*'"), VALUE), [row(None), message(None)], "t"),
}


@pytest.mark.parametrize("case", UNMATCHED)
def test_a_mask_that_hides_nothing_of_what_it_names_is_refused(cut: Captured, case: str) -> None:
    masks, items, unmatched = UNMATCHED[case]
    other = dataclasses.replace(cut.changelogs[0], app="b", topic="b-t-changelog")
    editing = Editing(dataclasses.replace(cut, changelogs=(*cut.changelogs, other)), None, masks)
    for item in items:
        editing.examine([item])
    if not unmatched:
        editing.raise_unmatched()
        return
    with pytest.raises(BadInputError, match=unmatched):
        editing.raise_unmatched()
    if unmatched == "nmae":
        assert [it.value for it in editing.edit(items)] == [b'{"name":"*"}'] * 2, "it is not added"


@pytest.mark.parametrize(
    ("item", "mask", "what"),
    [
        (row(b"\0\0\0\0\1\x06ann"), Mask(table="t", value="'*'"), "it is not text"),
        *(
            (row(value), Mask(table="t", fields={"a": "1"}), "it is not a JSON object")
            for value in (b"7", b'[{"a":1}]', b'{"a":' + b"[" * 100_000, b'{"a":1,"b":"\\ud800"}')
        ),
        (row(b'"x"', b"\xff"), Mask(table="t", value="md5(key)"), "no mask covers it"),
        (OF_ANN, Mask(table="s", value="'*'"), "would not be JSON"),
        (OF_ANN, Mask(table="s", fields={"a": "'*'"}), "not a JSON object"),
        (message(headers=HEADERS), VALUE, ""),  # it says nothing of headers
    ],
)
def test_what_cannot_be_masked_is_refused_with_its_reason(
    cut: Captured, item: Any, mask: Mask, what: str
) -> None:
    with pytest.raises(BadInputError, match=rf"{mask}.*{what}"):
        Editing(cut, None, (mask,)).examine([item])


def test_members_of_a_set_that_a_mask_makes_equal_are_one(cut: Captured) -> None:
    cuts = {SETS: next(it for it in cut.changelogs if it.sets)}
    items = [row_of(SETS, b'[15,"k"]', b'[["ann","bob"],[]]')]
    rows = Editing(cut, None, (Mask(table="s", value="to_json('*')"),)).edit(items)
    found = differences(rows, lambda tp: (), cuts)
    assert [(it.record.key, it.record.value) for it in found] == [(b'[1,"k"]', b'"*"')]


MAIL = Mask(app="app", table="t", fields={"mail": "'*'"})
DROP, KEEP = (Mask(topic="in", headers=it) for it in ("drop", "keep"))
PERSON = row(b'{"name":"Ann","mail":"a@b"}')
OF_US = message(b"1", (*HEADERS, STAMP))
ELSEWHERE = message(headers=HEADERS)._replace(topic=RAW.topic)
#: An item, masks, and what becomes of it. A second mask leaves the first in force; keys may be anything, as masks hide
#: nothing of them; headers of ours are no one's; and no mask is of another topic.
MASKED: list[tuple[KafkaRecord, tuple[Mask, ...], KafkaRecord]] = [
    (PERSON, (NAME, MAIL), row(b'{"name":"*","mail":"*"}')),
    (PERSON, (NAME, Mask(table="t", value="upper(value)")), row(b'{"NAME":"*","MAIL":"A@B"}')),
    *(
        (row(b'{"name":"Ann"}', key), (NAME,), row(b'{"name":"*"}', key))
        for key in (b"\0\0\0\0\0\0\0*", b"\xff", b'{"id":["ann"]}', b'["a",[0.0,9.9]]')
    ),
    (
        row_of(WINDOWS, b'["ann",[0.0,9.9]]', b"7"),
        (Mask(table="w", value="upper(key)"),),
        row_of(WINDOWS, b'["ann",[0.0,9.9]]', b"ANN"),
    ),
    (OF_ANN, (Mask(table="s", value="""'[["*"],[]]'"""),), row_of(SETS, b'[1,"k"]', b'[["*"],[]]')),
    (message(headers=(STAMP,)), (VALUE,), message(b"*", (STAMP,))),
    (ELSEWHERE, (VALUE,), ELSEWHERE),
    (OF_US, (DROP,), OF_US._replace(headers=(STAMP,))),
    (OF_US, (KEEP,), OF_US),
    (OF_US, (KEEP, DROP), OF_US._replace(headers=(STAMP,))),
]


@pytest.mark.parametrize(("item", "masks", "found"), MASKED)
def test_what_a_mask_makes_of_an_item(
    cut: Captured, item: KafkaRecord, masks: tuple[Mask, ...], found: KafkaRecord
) -> None:
    assert list(Editing(cut, None, masks).edit([item])) == [found]


@pytest.mark.parametrize(
    ("suppression", "masks", "what"),
    [
        (None, (Mask(table="tt", value="'*'"),), "hide nothing"),
        (None, (Mask(topic="inn", value="'*'"),), "hide nothing"),
        (None, (Mask(app="b", table="t", value="1"),), "hide nothing"),
        (None, (Mask(table="t", value="nothing"),), "SQL"),
        (sql("key = "), (), "fails"),
        (sql("key IN (SELECT content FROM read_text('/etc/passwd'))"), (), "fails"),
    ],
)
def test_a_mask_of_nothing_and_wrong_sql_are_found_before_anything_is_written(
    cut: Captured, suppression: Suppression | None, masks: tuple[Mask, ...], what: str
) -> None:
    with pytest.raises(BadInputError, match=what):
        Editing(cut, suppression, masks)


ERASED = Suppression(keys=("ann",), prefixes=("user-7:",), sql=("key = 'x'",), binary=("longs",))
TWO = (Mask(table="t", fields={"a.b": "'*'"}), Mask(topic="in", value="1", headers="drop"))
FILES: list[tuple[Callable[[str], object], str, object]] = [
    (read_suppression, "keys=['ann']\nprefixes=['user-7:']\nsql=[\"key = 'x'\"]\nbinary=['longs']", ERASED),
    *((read_suppression, text, None) for text in (
        "", "keys = []", "binary = ['longs']", "keys = ['']", "key = ['a']", "keys = 'a'", "keys = ",
    )),
    (read_masks, "[[mask]]\ntable='t'\nfields={'a.b'=\"'*'\"}\n[[mask]]\ntopic='in'\nvalue='1'\nheaders='drop'", TWO),
    (read_masks, "[[mask]]\ntopic = 'raw'\nheaders = 'keep'", (Mask(topic="raw", headers="keep"),)),
    *((read_masks, "[[mask]]\n" + text, None) for text in (
        "table = 't'", "value = '1'", "table = 't'\ntopic = 'x'\nvalue = '1'", "table = 't'\nvalue = 1",
        "table = 't'\nvalues = '1'", "table = 't'\nfields = 'name'", "topic = 't'\nvalue = '1'\nheaders = 'lose'",
        "table = 't'\nvalue = '1'\nfields = { name = '1' }", "table = 't'\nvalue = '1'\nheaders = 'drop'",
        "topic = 't'\nvalue = '1'\nheaders = { trace = 1 }",
    )),
    (read_masks, "", None),
    (read_masks, "mask = 1", None),
]  # fmt: skip


@pytest.mark.parametrize(("read", "text", "found"), FILES)
def test_files(tmp_path: Path, read: Callable[[str], object], text: str, found: object) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    if found is not None:
        assert read(str(file)) == found
        return
    with pytest.raises(BadInputError):
        read(str(file))
