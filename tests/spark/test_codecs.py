"""Keys and values as people wrote them, in any of Faust's codecs; what cannot be decoded is bytes and a reason."""

from __future__ import annotations

import json
import pickle
import random
import re
import zlib
from base64 import b64encode
from io import BytesIO
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import PLAIN, Decoding, local_frame
from snapkafka.assembly.decoding import normal_name
from snapkafka.assembly.spark.values.json_text import LEVELS, plain
from snapkafka.assembly.spark.values.values import decoded, key_and_value

pytestmark = pytest.mark.nightly

OWN = Decoding(codecs=("tests.spark.own_codecs",))
ROWS = "topic string, key binary, value binary, key_codec string, value_codec string"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "int"], "default": None}],
}
ORDERS = Decoding(avro={"orders-value": json.dumps(ORDER), "17": json.dumps(ORDER)})

Row = tuple[bytes | None, str | None]


def read(spark: SparkSession, rows: list[Row], decoding: Decoding = PLAIN, topic: str = "t") -> list[Any]:
    """(text, why) of values with their codecs, None: nobody knows it."""
    table = local_frame(
        spark,
        ROWS,
        [
            {
                "topic": topic,
                "key": str(n).encode(),
                "value": raw,
                "key_codec": "json",
                "value_codec": None if codec is None else normal_name(codec),
            }
            for n, (raw, codec) in enumerate(rows)
        ],
    )
    found = decoded(table, decoding).select(*key_and_value()).collect()
    by_number = {int(row.key): row for row in found}
    assert [by_number[n].value_raw for n in range(len(rows))] == [raw for raw, _ in rows], (
        "bytes are always kept"
    )
    return [(by_number[n].value, by_number[n].why_undecoded) for n in range(len(rows))]


def test_texts(spark: SparkSession) -> None:
    cases: list[tuple[str, bytes | None, str | None, str | None]] = [
        ("json", b'"a \\u00e4 text"', "a ä text", None),
        ("json", b"12.50", "12.50", None),
        ("json", b"null", "null", None),
        ("json", b' {"b": 1, "a": [2]}', ' {"b": 1, "a": [2]}', None),
        ("json", b"not json", None, "value: not JSON"),
        ("json", b"", None, "value: not JSON"),
        ("json", b"\xff", None, "value: not UTF-8"),
        ("json", None, None, None),
        ("raw", b'"as it is"', '"as it is"', None),
        ("raw", b"\xc3\x28", None, "value: not UTF-8"),
        ("text", "ä".encode(), "ä", None),
        ("", b"x", "x", None),
        ("json|binary", b64encode(b'{"a": 1}'), '{"a": 1}', None),
        ("json|binary", b64encode(b"no json"), None, "value: not JSON"),
        ("json|binary", b'{"a": 1}', None, "value: not base64"),
        ("binary", b64encode("ä".encode()), "ä", None),
        ("binary", b64encode(b"\xff"), None, "value: not UTF-8"),
        ("binary", b"\xff", None, "value: not base64"),
        ("mine", b"x", None, "value: codec mine is not decoded"),
        ("mine|binary", b"x", None, "value: codec mine|binary is not decoded"),
        (
            "pickle",
            b"x",
            None,
            "value: codec pickle is not decoded: pickles execute code (the option unpickle)",
        ),
        ("pickle", None, None, None),
    ]
    found = read(spark, [(raw, codec) for codec, raw, _, _ in cases])
    assert found == [(text, why) for _, _, text, why in cases]


def test_strings_that_look_plain_are_read_as_the_parser_reads_them(spark: SparkSession) -> None:
    """Those without escapes are not parsed: whatever JSON says of them has to come out all the same."""
    marks = ["a", "ä", "\U0001f600", "\u2028", "\x7f", " ", '"', "\\", "\\n", "\n", "\t", "\x00", "\x1f"]
    inside = ["", *marks, *(one + other for one in marks for other in marks)]
    texts = [
        f'{before}"{text}"{after}' for text in inside for before, after in (("", ""), ("", "\n"), (" ", ""))
    ]
    texts += ['"', '""""', '"a', 'a"', '"a"b', "''"]

    wanted = [reported(text) for text in texts]
    assert len({content for content, _ in wanted}) > 50, "else little is compared"
    assert read(spark, [(text.encode(), "json") for text in texts]) == wanted


def test_json_is_what_python_takes_for_it_and_nothing_behind_it(spark: SparkSession) -> None:
    """Spark's own parsers stop behind the first value."""
    whole = ['{"a":1}', "1", '"x"', "true", "null", "-1.5e10", ' {"a": [1, {"b": null}]} ', "[]", '[1,"]"]']
    behind = ["", "\n", " ", "}", "]", "{", "[", ",", "2", ",2", '"', ' "b"', ',"b":2', ":1", "x", '}{"":1']
    behind += ["],[1", '},{"":1', "}]", "]}", "\n{}", "//", "\x00"]
    texts = [before + value + rest for value in whole for rest in behind for before in ("", " ", "[", "{")]
    texts += ["", " ", "tru", "truex", "01", ".5", "1.", "+1", "-", "1e400", "1" * 900, '{"a":1,"a":2}']
    texts += ["'x'", "{'a':1}", "{a:1}", "/*x*/1", "[1,]", '{"a":1,"b"}', '"\\u12"', '"\\q"', "\ufeff1"]
    texts += [
        "NaN",
        "[Infinity]",
        '{"a":-Infinity}',
        "{NaN:1}",
        "-NaN",
        "+Infinity",
        "nan",
        '"NaN"NaN',
        "[NaN NaN]",
    ]
    texts += [
        '{"NaN" : NaN,"a":"\\"Infinity"}',
        '"\\NaN"',
        '"a", NaN',
        "[NaN,\x01]",
        "\x01NaN\x02",
        '["NaN,Infinity]',
    ]
    texts += ["[" * 900 + "]" * 900]
    texts += [form % chr(code) for code in range(33) for form in ('"x%sy"', '{"a":"x%sy"}')]

    wanted = [reported(text)[1] for text in texts]
    assert 30 < wanted.count(None) < len(texts) / 2
    found = [why for _, why in read(spark, [(text.encode(), "json") for text in texts])]
    assert [text for text, one, other in zip(texts, found, wanted, strict=True) if one != other] == []


def test_json_that_is_not_parsed_is_json(spark: SparkSession) -> None:
    """Small values of a few levels are told by their marks: all of them and no others."""
    rng = random.Random(8259)
    marks = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        '"',
        "\\",
        "0",
        "1",
        "-",
        ".",
        "e",
        "+",
        " ",
        "\n",
        "\x0b",
        "a",
        "null",
    ]

    def value(levels: int) -> object:
        kind = rng.randrange(6 if levels else 4)
        if kind >= 4:
            some = [value(levels - 1) for _ in range(rng.randrange(4))]
            return some if kind == 4 else {f"{rng.choice('aä}')}{n}": one for n, one in enumerate(some)}
        return rng.choice((None, True, False, "", "a", "ä]", "{,", 0, -1, 10.5, -2e-7, 1e300, 123456789012))

    texts = []
    for _ in range(3000):
        separators = rng.choice(((",", ":"), (", ", ": "), (" ,\n", "\t:\r ")))
        text = json.dumps(value(rng.randrange(5)), ensure_ascii=False, separators=separators)
        texts.append(text)
        at = rng.randrange(len(text) + 1)  # and with one mark too many, too few, or another one
        texts.append(text[:at] + rng.choice(["", *marks]) + text[at + rng.randrange(2) :])
    texts.append(json.dumps({f"{n}": n for n in range(340)}))
    texts.append(json.dumps([list(range(1000))]))
    wanted = [reported(text)[1] for text in texts]
    assert 500 < wanted.count("value: not JSON") < len(texts) / 2
    found = [why for _, why in read(spark, [(text.encode(), "json") for text in texts])]
    assert [text for text, one, other in zip(texts, found, wanted, strict=True) if one != other] == []
    simple = re.compile(plain(LEVELS).replace(r"\z", r"\Z"))  # Python's name for the end
    matched = [why for text, why in zip(texts, wanted, strict=True) if simple.match(text)]
    assert set(matched) == {None}
    assert len(matched) > 1500, "else little is told by marks"


def reported(text: str) -> tuple[str | None, str | None]:
    """What Python reads in JSON that is a string, and why it is no JSON. NaN and infinities are strings."""
    try:
        content = json.loads(text, parse_constant=str)
    except ValueError:
        return None, "value: not JSON"
    return content if isinstance(content, str) else None, None


def test_texts_of_which_nobody_knows_the_codec(spark: SparkSession) -> None:
    cases: list[tuple[bytes | None, str | None, str | None]] = [
        (b'"a text"', "a text", None),
        (b"left as it is", "left as it is", None),
        (b'"unfinished', '"unfinished', None),
        (b"\x00\x01\xfe", None, "value: not UTF-8"),
        (b"", "", None),
        (None, None, None),
    ]
    assert read(spark, [(raw, None) for raw, _, _ in cases]) == [(text, why) for _, text, why in cases]


def test_both_reasons_are_given(spark: SparkSession) -> None:
    both = {"topic": "t", "key": b"\xff", "value": b"{", "key_codec": "json", "value_codec": "json"}
    (found,) = decoded(local_frame(spark, ROWS, [both])).select(*key_and_value()).collect()
    assert found.why_undecoded == "key: not UTF-8; value: not JSON"


# -- codecs of the app -------------------------------------------------------------------------------------------------


def test_codecs_of_the_app_are_loaded_where_the_data_is(spark: SparkSession) -> None:
    """What fails is that one value, and says how; sets come in one order."""
    rows: list[Row] = [
        (zlib.compress(b'{"a":[1,"\xc3\xa4"]}'), "json|zipped"),
        (zlib.compress(b"plain"), "raw|zipped"),
        (b"damaged", "json|zipped"),
        (b"x", "leaving"),
        (b"x", "nobody's"),
        (zlib.compress(pickle.dumps(1)), "hidden_pickle"),
        (b64encode(pickle.dumps(1)), "pickle"),
        (b64encode(pickle.dumps({3, 1, 2})), "pickle_restricted"),
        (b'{"b":1}', "json"),
        (None, "json|zipped"),
    ]
    assert read(spark, rows, OWN) == [
        ('{"a":[1,"ä"]}', None),
        ("plain", None),
        (None, "value: codec json|zipped: error"),
        (None, "value: codec leaving: SystemExit"),
        (None, "value: codec nobody's is not registered with Faust"),
        (None, "value: codec hidden_pickle is not decoded: pickles execute code (the option unpickle)"),
        (None, "value: codec pickle is not decoded: pickles execute code (the option unpickle)"),
        ("[1,2,3]", None),
        ('{"b":1}', None),
        (None, None),
    ]


def test_pickles_are_loaded_if_that_is_asked_for(spark: SparkSession) -> None:
    pickled = b64encode(pickle.dumps(("k", (1.0, 4.9)))), "pickle"
    no_json: Row = b64encode(pickle.dumps(float("nan"))), "pickle"
    not_text: Row = b64encode(pickle.dumps("\ud800")), "pickle"
    assert read(spark, [pickled, no_json, not_text, (b"x", "pickle")], Decoding(unpickle=True)) == [
        ('["k",[1.0,4.9]]', None),
        ("NaN", None),
        (None, "value: codec pickle: UnicodeEncodeError"),
        (None, "value: codec pickle: Error"),
    ]


def test_a_worker_without_the_module_ends_nothing(spark: SparkSession) -> None:
    rows: list[Row] = [(b"1", "json"), (b"x", "mine")]
    assert read(spark, rows, Decoding(codecs=("no_such_module",))) == [
        ("1", None),
        (None, "value: codec mine: no module no_such_module on a worker"),
    ]


# -- Avro --------------------------------------------------------------------------------------------------------------


def avro(schema: Any, datum: Any) -> bytes:
    import avro.schema
    from avro.io import BinaryEncoder, DatumWriter

    buffer = BytesIO()
    DatumWriter(avro.schema.parse(json.dumps(schema))).write(datum, BinaryEncoder(buffer))
    return buffer.getvalue()


def test_avro_by_the_topic_and_by_the_number_in_a_registry(spark: SparkSession) -> None:
    one, two = (avro(ORDER, {"id": name, "n": n}) for name, n in (("a", 1), ("ä", None)))
    rows: list[Row] = [(one, "mine"), (two, "json"), (b"\xff", "mine"), (None, "mine")]
    assert read(spark, rows, ORDERS, "orders") == [
        ('{"id":"a","n":1}', None),
        ('{"id":"ä","n":null}', None),
        (None, "value: not Avro by the schema orders-value"),
        (None, None),
    ]
    ids = [b"\x00" + number.to_bytes(4, "big") for number in (17, 18)]
    rows = [(ids[0] + two, "mine"), (ids[1] + two, "mine"), (ids[0], "mine"), (b"2", "json"), (ids[0], "raw")]
    assert read(spark, rows, ORDERS, "others") == [
        ('{"id":"ä","n":null}', None),
        (None, "value: codec mine is not decoded"),
        (None, "value: not Avro by the schema 17"),
        ("2", None),
        ("\x00\x00\x00\x00\x11", None),
    ]
    assert read(spark, [(ids[0] + one, None), (b"text", None)], ORDERS) == [
        ('{"id":"a","n":1}', None),
        ("text", None),
    ]


def test_schemas_that_spark_has_no_columns_for(spark: SparkSession) -> None:
    """A recursive one, a decimal of more than 38 digits, names that differ in case alone, a union of several types."""
    odd = {
        "type": "record",
        "name": "Odd",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "Id", "type": ["null", "int", "string"]},
            {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}},
            {"name": "next", "type": ["null", "Odd"]},
        ],
    }
    of_sum = b"".join((b"\x2c", (10**50 - 1).to_bytes(22, "big")))
    last = b"\x04" + b"\x04\x04ab" + of_sum + b"\x00"
    rows: list[Row] = [
        (b"\x02" + b"\x02\x06" + of_sum + b"\x02" + last, "mine"),
        (last[:-2], "mine"),
        (None, "mine"),
    ]
    text = "9" * 48 + ".99"
    inner = f'{{"id":2,"Id":{{"string":"ab"}},"sum":"{text}","next":null}}'
    expected = f'{{"id":1,"Id":{{"int":3}},"sum":"{text}","next":{inner}}}'
    given = {"odd-value": json.dumps(odd), "17": json.dumps(odd), "18": json.dumps(ORDER)}
    assert read(spark, rows, Decoding(avro=given), "odd") == [
        (expected, None),
        (None, "value: not Avro by the schema odd-value"),
        (None, None),
    ]
    one = b"\x00\x00\x00\x00\x11" + (rows[0][0] or b"")
    two = b"\x00\x00\x00\x00\x12" + avro(ORDER, {"id": "a", "n": 1})
    assert read(spark, [(one, None), (two, None), (b"text", None)], Decoding(avro=given)) == [
        (expected, None),
        ('{"id":"a","n":1}', None),
        ("text", None),
    ]


def test_an_avro_string_is_its_content(spark: SparkSession) -> None:
    row = local_frame(spark, ROWS, [{"topic": "orders", "key": avro("string", 'k"1'), "value": None}])
    (found,) = decoded(row, Decoding(avro={"orders-key": '"string"'})).select(*key_and_value()).collect()
    assert (found.key, found.why_undecoded) == ('k"1', None)
