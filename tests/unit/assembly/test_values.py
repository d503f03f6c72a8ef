"""Keys and values as people wrote them, in any of Faust's codecs; what cannot be decoded is bytes and a reason."""

import json
import pickle
import struct
import subprocess
import sys
import zlib
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse

from snapkafka.assembly import PLAIN, Decoding
from snapkafka.assembly.values.avro import JSON, Schema, read_schemas, reader_of
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.assembly.values.registry import Registry
from snapkafka.errors import BadInputError

OWN = Decoding(codecs=("tests.spark.own_codecs",))
PICKLED = "is not decoded: pickles execute code (the option unpickle)"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "int"], "default": None}],
}


def read(
    raw: bytes | None, codec: str | None, decoding: Decoding = PLAIN, topic: str = "t"
) -> tuple[str | None, str | None]:
    """Return the text of a value, and why it is none."""
    found = Decoder(decoding).texts(topic, b"1", raw, ("json", codec))
    columns = Decoder(decoding).columns(([b"1", None], [raw, None]), topic, ("json", codec), windowed=False)
    assert {name: values[0] for name, values in columns.items()} == found._asdict()
    assert {values[1] for values in columns.values()} == {None}
    assert found.key == "1"
    return found.value, None if found.why_undecoded is None else found.why_undecoded.removeprefix("value: ")


@pytest.mark.parametrize(
    ("codec", "raw", "text", "why"),
    [
        ("json", b'"a \\u00e4 text"', "a ä text", None),
        ("json", b' "spaced" ', "spaced", None),
        ("json", b"12.50", "12.50", None),
        ("json", b"null", "null", None),
        ("json", b' {"b": 1, "a": [2]}', ' {"b": 1, "a": [2]}', None),
        ("json", b"not json", None, "not JSON"),
        ("json", b"", None, "not JSON"),
        ("json", b"\xff", None, "not UTF-8"),
        ("json", b'"\\ud800"', None, "not JSON"),
        ("json", None, None, None),
        ("raw", b'"as it is"', '"as it is"', None),
        ("raw", b"\xc3\x28", None, "not UTF-8"),
        ("text", "ä".encode(), "ä", None),
        ("", b"x", "x", None),
        ("json|binary", b64encode(b'{"a": 1}'), '{"a": 1}', None),
        ("json|binary", b64encode(b"no json"), None, "not JSON"),
        ("json|binary", b'{"a": 1}', None, "not base64"),
        ("binary", b64encode("ä".encode()), "ä", None),
        ("binary", b64encode(b"\xff"), None, "not UTF-8"),
        ("binary", b"\xff", None, "not base64"),
        ("mine", b"x", None, "codec mine is not decoded"),
        ("mine|binary", b"x", None, "codec mine|binary is not decoded"),
        ("pickle", b"x", None, f"codec pickle {PICKLED}"),
        ("pickle", None, None, None),
        (None, b'"a text"', "a text", None),
        (None, b"left as it is", "left as it is", None),
        (None, b'"unfinished', '"unfinished', None),
        (None, b"\x00\x01\xfe", None, "not UTF-8"),
        (None, b"", "", None),
    ],
)
def test_a_value_by_its_codec(
    codec: str | None, raw: bytes | None, text: str | None, why: str | None
) -> None:
    assert read(raw, codec) == (text, why)


# --- JSON -----------------------------------------------------------------------------------------------------------


def reported(text: str) -> bool:
    """Return whether Python, without its NaN and infinities, takes it for JSON."""
    try:
        json.loads(text, parse_constant=int)
    except ValueError:
        return False
    return True


def test_json_is_what_python_takes_for_it_and_nothing_behind_it() -> None:
    whole = ['{"a":1}', "1", '"x"', "true", "null", "-1.5e10", ' {"a": [1, {"b": null}]} ', "[]", '[1,"]"]']
    behind = ["", "\n", " ", "}", "]", "{", "[", ",", "2", ",2", '"', ' "b"', ',"b":2', ":1", "x", '}{"":1']
    texts = [before + value + rest for value in whole for rest in behind for before in ("", " ", "[", "{")]
    texts += ["", " ", "tru", "truex", "01", ".5", "1.", "+1", "-", "1e400", "1" * 900, '{"a":1,"a":2}']
    texts += ["'x'", "{'a':1}", "{a:1}", "/*x*/1", "[1,]", '{"a":1,"b"}', '"\\u12"', '"\\q"', "\ufeff1"]
    texts += ["NaN", "[Infinity]", '{"a":-Infinity}', "{NaN:1}", "-NaN", "+Infinity", "nan", '"NaN"NaN']
    texts += ["[NaN NaN]", '{"NaN" : NaN,"a":"\\"Infinity"}', '"\\NaN"', "[NaN,\x01]", '["NaN,Infinity]']
    texts += ["[" * 101 + "]" * 101, "1" + "0" * 300, '"\\ud83d\\ude00"']
    texts += [form % chr(code) for code in range(33) for form in ('"x%sy"', '{"a":"x%sy"}')]
    for text in texts:
        assert (read(text.encode(), "json")[1] is None) == reported(text), text


MEMORY = """
import resource
from snapkafka.assembly.values.decoder import Decoder

value = b"[" + b'{"a":1},' * 2_500_000 + b"0]"
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = Decoder().form(value, "json")
assert found.why is None
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_large_value_costs_a_few_times_its_size() -> None:
    """20 MB of JSON: nothing is made of it."""
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200


def test_no_depth_ends_a_job() -> None:
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000):
        assert read(text.encode(), "json") == (None, "not JSON")


# --- Codecs of the app ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "codec", "expected"),
    [
        (zlib.compress(b'{"a":[1,"\xc3\xa4"]}'), "json|zipped", ('{"a":[1,"ä"]}', None)),
        (zlib.compress(b"plain"), "raw|zipped", ("plain", None)),
        (b"damaged", "json|zipped", (None, "codec json|zipped: error")),
        (b"x", "leaving", (None, "codec leaving: SystemExit")),
        (b"x", "nobody's", (None, "codec nobody's is not registered with Faust")),
        (zlib.compress(pickle.dumps(1)), "hidden_pickle", (None, f"codec hidden_pickle {PICKLED}")),
        (b64encode(pickle.dumps(1)), "pickle", (None, f"codec pickle {PICKLED}")),
        (b64encode(pickle.dumps({3, 1, 2})), "pickle_restricted", ("[1,2,3]", None)),
    ],
)
def test_codecs_of_the_app_fail_at_a_value_and_say_how(
    raw: bytes, codec: str, expected: tuple[str | None, str | None]
) -> None:
    assert read(raw, codec, OWN) == expected


def test_pickles_are_loaded_if_that_is_asked_for() -> None:
    def loaded(raw: bytes) -> tuple[str | None, str | None]:
        return read(raw, "pickle", Decoding(unpickle=True))

    assert loaded(b64encode(pickle.dumps(("k", (1.0, 4.9))))) == ('["k",[1.0,4.9]]', None)
    assert loaded(b64encode(pickle.dumps(float("nan")))) == (None, "codec pickle: ValueError")
    assert loaded(b64encode(pickle.dumps("\ud800"))) == (None, "codec pickle: UnicodeEncodeError")
    assert loaded(b"x") == (None, "codec pickle: Error")


def test_where_the_module_is_missing_only_its_values_are_not_decoded() -> None:
    decoding = Decoding(codecs=("no_such_module",))
    assert read(b"1", "json", decoding) == ("1", None)
    assert read(b"x", "mine", decoding) == (None, "codec mine: no module no_such_module on a worker")


# --- Avro -----------------------------------------------------------------------------------------------------------


def avro(schema: Any, datum: Any) -> bytes:
    buffer = BytesIO()
    DatumWriter(parse(json.dumps(schema))).write(datum, BinaryEncoder(buffer))
    return buffer.getvalue()


def text(schema: Any, raw: bytes) -> Any:
    """Return what is read by a schema; None: nothing."""
    found = reader_of(Schema(json.dumps(schema)))(raw)
    return None if found is None else json.loads(found)


def numbered(number: int, data: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + data


def registry_of(known: dict[int, Schema | str]) -> Registry:
    found = Registry("http://nowhere", {})
    found._schemas |= known
    return found


def test_by_the_topic_and_by_the_number() -> None:
    decoding = Decoding(
        avro={"orders-value": json.dumps(ORDER), "17": json.dumps(ORDER)},
        registry=registry_of(
            {
                5: Schema(json.dumps(ORDER)),
                6: Schema('{"type":"string"}', JSON),
                7: Schema("x", "PROTOBUF"),
                8: "the registry does not have it",
                9: Schema('["null","a.Id"]', needs=('{"type":"record","name":"a.Id","fields":[]}',)),
            }
        ),
    )
    one, two = (avro(ORDER, {"id": name, "n": n}) for name, n in (("a", 1), ("ä", None)))
    assert read(one, "mine", decoding, "orders") == ('{"id":"a","n":1}', None)
    assert read(two, "json", decoding, "orders") == ('{"id":"ä","n":null}', None)
    assert read(b"\xff", "mine", decoding, "orders") == (None, "not Avro by the schema orders-value")
    for number in (17, 5):
        assert read(numbered(number, two), "mine", decoding) == ('{"id":"ä","n":null}', None)
    assert read(numbered(17, b""), None, decoding) == (None, "not Avro by the schema 17")
    assert read(numbered(5, b""), None, decoding) == (None, "schema 5: not Avro by it")
    assert read(numbered(6, b'"x"'), None, decoding) == ("x", None)
    assert read(numbered(6, b"x"), None, decoding) == (None, "schema 6: not JSON")
    assert read(numbered(7, b""), None, decoding) == (
        None,
        "schema 7: it is PROTOBUF, which is not supported",
    )
    assert read(numbered(8, b""), "json", decoding) == (None, "schema 8: the registry does not have it")
    assert read(numbered(9, b"\x02"), None, decoding) == ("{}", None)
    assert read(numbered(17, b"")[:4], "json", decoding) == (None, "not JSON")
    assert read(numbered(17, b""), "raw", decoding) == ("\x00\x00\x00\x00\x11", None), "text has no number"
    assert read(b"2", "json", decoding) == ("2", None)


def test_a_recursive_record_and_a_long_decimal() -> None:
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}
    fields = [{"name": "sum", "type": amount}, {"name": "next", "type": ["null", "Odd"]}]
    odd = {"type": "record", "name": "shop.Odd", "fields": fields}
    digits = b"\x2c" + (10**50 - 1).to_bytes(22, "big")
    inner = {"sum": "9" * 48 + ".99", "next": None}
    assert text(odd, digits + b"\x02" + digits + b"\x00") == {**inner, "next": inner}
    assert text(odd, (digits + b"\x02") * 100_000) is None, "no depth ends the process"


@pytest.mark.parametrize(
    ("kind", "logical", "datum", "expected"),
    [
        ("bytes", "decimal", b"\xff\x85", "-1.23"),
        ("bytes", "decimal", bytes([59, 154, 202, 0]), None),  # ten digits, of nine
        ("int", "date", 1, "1970-01-02"),
        ("int", "date", 2**31 - 1, None),
        ("int", "time-millis", 1, "00:00:00.001000"),
        ("long", "timestamp-millis", -1, "1969-12-31T23:59:59.999000Z"),
        ("long", "local-timestamp-micros", 1, "1970-01-01T00:00:00.000001"),
        ("long", "timestamp-micros", 2**62, None),
        ("long", "nobodys", 7, 7),
        ("bytes", "", b"\xff\x00", "/wA="),
    ],
)
def test_logical_types(kind: str, logical: str, datum: Any, expected: Any) -> None:
    schema = {"type": kind, "logicalType": logical, "precision": 9, "scale": 2}
    assert text(schema, avro(kind, datum)) == expected


def test_bytes_of_fixed_length_and_what_is_none() -> None:
    assert text({"type": "fixed", "size": 2, "name": "f"}, b"\xff\x00") == "/wA="
    assert text("double", struct.pack("<d", float("nan"))) is None
    assert text(["null", "string"], b"\x02\x02a") == "a"
    for raw in (b"", b"\x04a", b"\x03a", b"\x02\xff", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"):
        assert text("string", raw) is None, raw


@pytest.mark.parametrize(
    "schema",
    [
        "nothing",
        {"type": "array", "items": "null"},
        {
            "type": "array",
            "items": {"type": "record", "name": "R", "fields": [{"name": "n", "type": "null"}]},
        },
        {"type": "map", "values": {"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}},
    ],
)
def test_what_is_no_schema_or_has_items_without_bytes_is_refused(schema: Any) -> None:
    """A few bytes may have any number of such items; also where a schema refers to it by its name."""
    text = json.dumps(schema)
    needed = json.dumps({"type": "record", "name": "Needed", "fields": [{"name": "of", "type": schema}]})
    for found in (Schema(text), Schema('["null","Needed"]', needs=(needed,))):
        with pytest.raises(ValueError, match=":"):
            reader_of(found)


@pytest.mark.parametrize("given", ["orders={file}", "7={file}.not", "t-value={file}"])
def test_a_file_that_is_no_schema_is_refused(tmp_path: Path, given: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInputError):
        read_schemas([given.format(file=tmp_path / "file")])
