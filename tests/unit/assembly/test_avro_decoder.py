"""Avro to JSON, for any schema: written by the library of Apache, read by ours."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
import subprocess
import sys
from datetime import UTC, date, datetime, time
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import avro.schema
import pytest
from avro.io import BinaryEncoder, DatumWriter, validate
from pyspark import cloudpickle

from snapkafka.assembly.avro_decoder import decoder
from snapkafka.assembly.spark.values.avro import loading

SIMPLE: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def encoded(schema: Any, datum: Any) -> bytes:
    buffer = BytesIO()
    DatumWriter(avro.schema.parse(json.dumps(schema))).write(datum, BinaryEncoder(buffer))
    return buffer.getvalue()


def text(schema: Any, datum: Any, reader: Any = None) -> str | None:
    return decoder(json.dumps(schema), "" if reader is None else json.dumps(reader))(encoded(schema, datum))


def read(schema: Any, datum: Any, reader: Any = None) -> Any:
    found = text(schema, datum, reader)
    assert found is not None, (schema, datum)
    return json.loads(found)


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": of} for field, of in fields.items()],
    }


# -- generated ---------------------------------------------------------------------------------------------------------


class Odd:
    """Schemas that a registry accepts, and values of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"{self.random.choice(('N', 'n', 'com.shop.N'))}{self.names}"

    def schema(self, depth: int) -> Any:
        more = ("array", "map", "record", "record", "union") if depth else ()
        match self.random.choice((*SIMPLE, "enum", "fixed", *more)):
            case "enum":
                return {"type": "enum", "name": self.name(), "symbols": ["A", "a", "B"]}
            case "fixed":
                return {"type": "fixed", "name": self.name(), "size": self.random.randint(0, 9)}
            case "array":
                return {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1)}
            case "record":
                names = ("id", "Id", "ID")[: self.random.randint(0, 3)]
                return record(self.name(), **{name: self.schema(depth - 1) for name in names})
            case "union":
                texts = self.random.sample(("null", "bytes", "string"), self.random.randint(0, 3))
                number = self.random.choice(("boolean", "int", "long", "float", "double"))
                x, y = (
                    record(f"full.{self.name().rpartition('.')[2]}", **{field: of})
                    for field, of in (("x", "int"), ("y", "string"))
                )
                return [*texts, number, x, y]
            case simple:
                return simple

    def datum(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self.datum(self.random.choice(schema))
        match schema if isinstance(schema, str) else schema["type"]:
            case "null":
                return None
            case "boolean":
                return self.random.random() < 0.5
            case "int":
                return self.random.choice((0, -1, 2**31 - 1, -(2**31), 77))
            case "long":
                return self.random.choice((0, -1, 2**63 - 1, -(2**63), 77))
            case "float" | "double":
                return self.random.choice((0.1, -1.5, 1e20, math.nan, math.inf, -math.inf))
            case "bytes":
                return self.random.randbytes(self.random.randint(0, 5))
            case "fixed":
                return self.random.randbytes(schema["size"])
            case "string":
                return self.random.choice(("", 'ä\n"\\', "NaN", "x" * 200))
            case "enum":
                return self.random.choice(schema["symbols"])
            case "array":
                return [self.datum(schema["items"]) for _ in range(self.random.randint(0, 3))]
            case "map":
                return {f"k{n}": self.datum(schema["values"]) for n in range(self.random.randint(0, 3))}
            case _:
                return {it["name"]: self.datum(it["type"]) for it in schema["fields"]}


def shown(schema: Any, datum: Any) -> Any:
    """What JSON has to have of a value. In a union the library takes the first branch that fits."""
    if isinstance(schema, list):
        branch = next(it for it in schema if validate(avro.schema.parse(json.dumps(it)), datum))
        optional = sum(it != "null" for it in schema) <= 1
        name = branch if isinstance(branch, str) else branch["name"]
        return shown(branch, datum) if optional or branch == "null" else {name: shown(branch, datum)}
    match schema if isinstance(schema, str) else schema["type"]:
        case "float" | "double":
            return (
                datum if math.isfinite(datum) else str(datum).replace("inf", "Infinity").replace("nan", "NaN")
            )
        case "bytes" | "fixed":
            return base64.b64encode(datum).decode()
        case "array":
            return [shown(schema["items"], it) for it in datum]
        case "map":
            return {key: shown(schema["values"], it) for key, it in datum.items()}
        case "record":
            return {it["name"]: shown(it["type"], datum[it["name"]]) for it in schema["fields"]}
        case _:
            return datum


@pytest.mark.parametrize("seed", range(300))
def test_any_schema(seed: int) -> None:
    odd = Odd(seed)
    schema = odd.schema(3)
    for _ in range(5):
        datum = odd.datum(schema)
        expected, raw = shown(schema, datum), encoded(schema, datum)
        found = text(schema, datum)
        assert found is not None
        named = f"{found} of {schema}"
        near = json.loads(found, parse_float=lambda it: round(float(it), 6))
        assert near == json.loads(json.dumps(expected), parse_float=lambda it: round(float(it), 6)), named
        assert text(schema, datum, schema) == found, "resolved to itself"
        for end in range(len(raw)):
            decoder(json.dumps(schema))(raw[:end])  # raises nothing


# -- one by one --------------------------------------------------------------------------------------------------------


def test_a_recursive_schema() -> None:
    tree = record("Tree", n="int", children={"type": "array", "items": "Tree"}, next=["null", "Tree"])
    leaf = {"n": 3, "children": [], "next": None}
    assert read(tree, whole := {"n": 1, "children": [leaf, leaf], "next": leaf}) == whole
    assert read(tree, whole, tree) == whole
    raw = b"\x00\x00\x02" * 5_000 + encoded(tree, leaf)
    assert decoder(json.dumps(tree))(raw) is None, (
        "too many levels for anybody: bytes with a reason, and no crash"
    )


@pytest.mark.parametrize(
    ("digits", "scale", "of"),
    [(50, 4, "bytes"), (38, 0, "bytes"), (9, 9, "bytes"), (60, 2, "fixed"), (200, 100, "bytes")],
)
def test_a_decimal_has_all_its_digits(digits: int, scale: int, of: str) -> None:
    schema = {"type": of, "logicalType": "decimal", "precision": digits, "scale": scale}
    schema |= {"name": "F", "size": 90} if of == "fixed" else {}
    for number in (10**digits - 1, -(10**digits) + 1, 1, 0, -7):
        raw = number.to_bytes(90, "big", signed=True)
        data = raw if of == "fixed" else encoded("bytes", raw)
        found = decoder(json.dumps(schema))(data)
        assert found is not None
        exact = json.loads(found)
        assert exact.replace(".", "").lstrip("-").lstrip("0") == str(abs(number)).lstrip("0")
        assert exact.startswith("-") == (number < 0)
        assert len(exact.partition(".")[2]) == scale


def test_names_that_differ_in_case_alone() -> None:
    assert text(record("R", Id="int", id="string", ID="null"), {"Id": 1, "id": "a", "ID": None}) == (
        '{"Id":1,"id":"a","ID":null}'
    )


@pytest.mark.parametrize(
    ("branches", "datum", "found"),
    [
        (["null", "string"], "a", "a"),
        (["null", "string"], None, None),
        (["string"], "a", "a"),
        (["null", "string", "int"], 5, {"int": 5}),
        (["null", "string", "int"], "a", {"string": "a"}),
        (["null", "string", "int"], None, None),
        ([{"type": "array", "items": "int"}, "int"], [1], {"array": [1]}),
        (["int", record("com.shop.Paid", id="int")], {"id": 1}, {"com.shop.Paid": {"id": 1}}),
    ],
)
def test_a_union_says_which_type_a_value_has(branches: Any, datum: Any, found: Any) -> None:
    assert read(record("R", u=branches), {"u": datum}) == {"u": found}
    assert read(record("R", u=branches), {"u": datum}, record("R", u=branches)) == {"u": found}


NOON: Final = datetime(2026, 5, 1, 12, 0, 0, 123_456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("of", "logical", "datum", "found"),
    [
        ("int", "date", date(2026, 5, 1), "2026-05-01"),
        ("int", "time-millis", time(12, 0, 0, 123_000), "12:00:00.123"),
        ("long", "time-micros", time(12, 0, 0, 123_456), "12:00:00.123456"),
        ("long", "timestamp-millis", NOON, "2026-05-01T12:00:00.123Z"),
        ("long", "timestamp-micros", NOON, "2026-05-01T12:00:00.123456Z"),
        ("long", "timestamp-nanos", -1, "1969-12-31T23:59:59.999999999Z"),
        ("long", "local-timestamp-millis", 0, "1970-01-01T00:00:00.000"),
        ("long", "timestamp-micros", 2**62, 2**62),
        ("int", "date", -(2**31), -(2**31)),
        ("int", "time-millis", -1, -1),
        ("string", "uuid", "7ae2", "7ae2"),
        ("string", "unheard-of", "a", "a"),
        ("string", "decimal", "a", "a"),
        ("long", "date", 7, 7),
    ],
)
def test_logical_types(of: str, logical: str, datum: Any, found: Any) -> None:
    schema = {"type": of, "logicalType": logical}
    raw = encoded(of if isinstance(datum, int | str) else schema, datum)
    decoded = decoder(json.dumps(schema))(raw)
    assert decoded is not None
    assert json.loads(decoded) == found


def test_a_duration_and_short_floats() -> None:
    duration = {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}
    assert decoder(json.dumps(duration))(struct.pack("<III", 1, 2, 3)) == '{"months":1,"days":2,"millis":3}'
    for number, shortest in (
        (0.1, "0.1"),
        (16777216.0, "16777216.0"),
        (3.4028234e38, "3.4028235e+38"),
        (1e-45, "1e-45"),
    ):
        found = decoder('"float"')(struct.pack("<f", number))
        assert found == shortest


@pytest.mark.parametrize(
    ("writer", "reader", "datum", "found"),
    [
        (record("R", a="int"), record("R", a="double"), {"a": 5}, {"a": 5.0}),
        (record("R", a="string"), record("R", a="bytes"), {"a": "x"}, {"a": "eA=="}),
        (record("R", a="bytes"), record("R", a="string"), {"a": b"x"}, {"a": "x"}),
        (record("R", a="int", b="int"), record("R", b="int"), {"a": 1, "b": 2}, {"b": 2}),
        (record("x.R", a="int"), record("y.R", a="long"), {"a": 1}, {"a": 1}),
        (record("R", a="int"), record("R", a=["null", "long"]), {"a": 1}, {"a": 1}),
        (record("R", a="int"), record("R", a=["string", "long"]), {"a": 1}, {"a": {"long": 1}}),
        (record("R", a=["null", "int"]), record("R", a="int"), {"a": 1}, {"a": 1}),
        (record("R", a=["null", "int"]), record("R", a="int"), {"a": None}, None),
        (record("R", a="string"), record("R", a="int"), {"a": "x"}, None),
        (record("R", a="int"), record("R", b="int"), {"a": 1}, None),
        ("int", "string", 1, None),
    ],
)
def test_values_are_resolved_to_the_readers_schema(writer: Any, reader: Any, datum: Any, found: Any) -> None:
    decoded = text(writer, datum, reader)
    assert (None if decoded is None else json.loads(decoded)) == found


def test_defaults_and_aliases() -> None:
    reader = {
        "type": "record",
        "name": "New",
        "aliases": ["shop.Old"],
        "fields": [
            {"name": "renamed", "aliases": ["a"], "type": "int"},
            {"name": "more", "type": ["null", "string"], "default": None},
            {"name": "bytes", "type": "bytes", "default": "\u00ff"},
            {"name": "either", "type": ["string", "int"], "default": "s"},
            {"name": "nested", "type": record("In", x="double"), "default": {"x": 1}},
            {
                "name": "sum",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
                "default": "\u0001",
            },
            {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]},
        ],
    }
    assert read(record("Old", a="int"), {"a": 5}, reader) == {
        "renamed": 5, "more": None, "bytes": "/w==", "either": {"string": "s"}, "nested": {"x": 1.0}, "sum": "0.01",
        "list": [1],
    }  # fmt: skip
    symbols = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    fewer = {"type": "enum", "name": "E", "symbols": ["A"]}
    assert text(symbols, "B", fewer) is None
    assert text(symbols, "B", fewer | {"default": "A"}) == '"A"'


@pytest.mark.parametrize(
    ("schema", "raw"),
    [
        ('"int"', b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ('"int"', b"\xff\xff\xff\xff\xff\xff\xff\x01"),
        ('"string"', b"\x01"),
        ('"string"', b"\x02\xff"),
        ('"boolean"', b"\x02"),
        ('["null","int"]', b"\x01"),
        ('["null","int"]', b"\x08"),
        ('{"type":"array","items":"null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ('{"type":"enum","name":"E","symbols":["A"]}', b"\x01"),
        (
            '{"type":"array","items":{"type":"array","items":"null"}}',
            encoded("long", 9) + (encoded("long", 900_000) + b"\x00") * 9 + b"\x00",
        ),
    ],
)
def test_other_bytes_are_none(schema: str, raw: bytes) -> None:
    assert decoder(schema)(raw) is None


@pytest.mark.parametrize(
    "schema", ["{", '"strin"', "{}", '{"type":"record","name":"R"}', "7", '{"type":"array"}']
)
def test_what_is_no_schema_is_refused(schema: str) -> None:
    with pytest.raises(ValueError, match=r"missing, or an unknown|no types of Avro|Expecting"):
        decoder(schema)


def test_workers_need_not_have_snapkafka(tmp_path: Path) -> None:
    """What goes to them with a task holds all of the decoder."""
    schema = json.dumps(record("T", next=["null", "T"]))
    (tmp_path / "load").write_bytes(cloudpickle.dumps(loading([(schema, "")])))
    program = """
import sys
sys.modules["snapkafka"] = None
import pyarrow as pa
from pyspark import cloudpickle
load = cloudpickle.loads(open(sys.argv[1], "rb").read())
print(load(pa.array([bytes([2, 0]), None, bytes([2])]), pa.array([0, None, 0])).to_pylist())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "load")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, """['{"next":{"next":null}}', None, None]"""), (
        done.stderr
    )
