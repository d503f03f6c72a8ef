"""Avro by the numbers of a schema registry: a real one (Apicurio), asked by its URL, and one that is gone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import Decoding, local_frame, main
from snapkafka.assembly.schema_registry import Missing, Registry, Schema
from snapkafka.assembly.spark.values import schema_numbers
from snapkafka.assembly.spark.values.values import decoded, key_and_value
from snapkafka.store import read_manifest
from snapkafka.testing import Broker, free_ports
from tests.servers.registry import EmbeddedRegistry
from tests.spark.scene import play, play_on
from tests.spark.test_codecs import ROWS, avro

pytestmark = pytest.mark.nightly

ID = {"name": "id", "type": "string"}
N = {"name": "n", "type": ["null", "int"], "default": None}
PAID = {"name": "paid", "type": "boolean", "default": False}


def record(name: str, *fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def at(number: int, data: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + data


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRegistry]:
    with pytest.MonkeyPatch.context() as patch, EmbeddedRegistry() as running:
        patch.setenv("no_proxy", "127.0.0.1")
        yield running


def read(
    spark: SparkSession,
    registry: Registry,
    rows: list[bytes],
    *,
    topic: str = "orders",
    codec: str | None = None,
    given: dict[str, str] | None = None,
) -> list[tuple[str | None, str | None]]:
    """(text, why) of values."""
    table = local_frame(
        spark,
        ROWS,
        [
            {
                "topic": topic,
                "key": str(n).encode(),
                "value": raw,
                "key_codec": "json",
                "value_codec": codec,
            }
            for n, raw in enumerate(rows)
        ],
    )
    found = decoded(table, Decoding(avro=given or {}, registry=registry)).select(*key_and_value()).collect()
    by_number = {int(row.key): row for row in found}
    assert [bytes(by_number[n].value_raw) for n in range(len(rows))] == rows, "bytes are always kept"
    return [(by_number[n].value, by_number[n].why_undecoded) for n in range(len(rows))]


def test_versions_in_one_topic_are_read_as_the_latest_of_them(
    spark: SparkSession, server: EmbeddedRegistry
) -> None:
    """Whatever wrote them they have the same fields; a version that no row has changes nothing."""
    old, new, newer = (record("Order", ID), record("Order", ID, N), record("Order", ID, N, PAID))
    one, two = (server.register("orders-value", schema) for schema in (old, new))
    rows = [at(one, avro(old, {"id": "a"})), at(two, avro(new, {"id": "ä", "n": 3}))]
    expected = [('{"id":"a","n":null}', None), ('{"id":"ä","n":3}', None)]
    assert read(spark, Registry(server.url), rows) == expected
    assert read(spark, Registry(server.url), rows[:1]) == [('{"id":"a"}', None)]
    three = server.register("orders-value", newer)
    assert read(spark, Registry(server.url), rows) == expected, "the same as before it was registered"
    rows.append(at(three, avro(newer, {"id": "c", "n": None, "paid": True})))
    assert read(spark, Registry(server.url), rows) == [
        ('{"id":"a","n":null,"paid":false}', None),
        ('{"id":"ä","n":3,"paid":false}', None),
        ('{"id":"c","n":null,"paid":true}', None),
    ]


def test_the_latest_is_known_by_the_version_and_not_by_the_number(
    spark: SparkSession, server: EmbeddedRegistry
) -> None:
    """A schema may have been registered elsewhere before it became the latest here."""
    old, new = record("Moved", ID), record("Moved", ID, N)
    early = server.register("tried-elsewhere", new)
    late = server.register("moved-value", old)
    assert server.register("moved-value", new) == early < late
    rows = [at(late, avro(old, {"id": "a"})), at(early, avro(new, {"id": "b", "n": 1}))]
    assert read(spark, Registry(server.url), rows, topic="moved") == [
        ('{"id":"a","n":null}', None),
        ('{"id":"b","n":1}', None),
    ]


def test_records_of_several_names_in_one_topic_keep_their_fields(
    spark: SparkSession, server: EmbeddedRegistry
) -> None:
    begun, ended = record("Begun", ID, namespace="of"), record("Ended", PAID, namespace="of")
    numbers = [server.register(f"of.{schema['name']}", schema) for schema in (begun, ended)]
    rows = [at(numbers[0], avro(begun, {"id": "a"})), at(numbers[1], avro(ended, {"paid": True}))]
    assert read(spark, Registry(server.url), rows) == [('{"id":"a"}', None), ('{"paid":true}', None)]


def test_a_schema_that_refers_to_others(spark: SparkSession, server: EmbeddedRegistry) -> None:
    cents = record("Cents", {"name": "c", "type": "long"}, namespace="money")
    price = record("Price", {"name": "of", "type": "money.Cents"}, {"name": "then", "type": "money.Cents"})
    bill = record("Bill", {"name": "p", "type": "Price"}, {"name": "tip", "type": "money.Cents"})
    server.register("cents", cents)
    server.register("price", price, references=[("money.Cents", "cents", 1)])
    number = server.register(
        "bills-value", bill, references=[("Price", "price", 1), ("money.Cents", "cents", 1)]
    )
    known = Registry(server.url).schema(number)
    assert isinstance(known, Schema)
    assert [json.loads(need)["name"] for need in known.needs] == ["Cents", "Price"]
    written = b"\x02\x04\x06"  # three longs
    assert read(spark, Registry(server.url), [at(number, written)]) == [
        ('{"p":{"of":{"c":1},"then":{"c":2}},"tip":{"c":3}}', None)
    ]


def test_what_cannot_be_read_stays_bytes_with_the_reason(
    spark: SparkSession, server: EmbeddedRegistry
) -> None:
    order = record("Sound", ID)
    sound = server.register("sound-value", order)
    whole = record("Whole", {"name": "n", "type": "int"})
    text = record("Whole", {"name": "n", "type": "string"})
    numbers = [server.register(f"clash-{n}", schema) for n, schema in enumerate((whole, text))]
    circle = record("Circle", {"name": "next", "type": ["null", "Circle"]})
    recursive = server.register("circle-value", circle)
    proto = server.register("p-value", 'syntax = "proto3"; message A { string a = 1; }', kind="PROTOBUF")
    rows = [
        at(sound, avro(order, {"id": "a"})),
        at(sound, b"\x7f"),
        at(sound, b""),
        at(9_999, b"\x02a"),
        at(2**32 - 1, b""),
        at(recursive, avro(circle, {"next": None})),
        at(proto, b"\x0a\x01a"),
        at(numbers[0], avro(whole, {"n": 5})),
        at(numbers[1], avro(text, {"n": "t"})),
        b"\x00\x00",
        b"no number",
    ]
    assert read(spark, Registry(server.url), rows) == [
        ('{"id":"a"}', None),
        (None, f"value: schema {sound}: not Avro by it"),
        (None, f"value: schema {sound}: not Avro by it"),
        (None, "value: schema 9999: the registry does not have it"),
        (None, "value: schema 4294967295: not a valid schema number"),
        ('{"next":null}', None),
        (None, f"value: schema {proto}: it is PROTOBUF, which is not supported"),
        (None, f"value: schema {numbers[0]}: not Avro by it, read as schema {numbers[1]}"),
        ('{"n":"t"}', None),
        ("\x00\x00", None),
        ("no number", None),
    ]


def test_a_registry_that_is_away_ends_nothing(spark: SparkSession) -> None:
    (port,) = free_ports(1)
    said: list[str] = []
    gone = Registry(f"http://me:secret@127.0.0.1:{port}", notify=said.append, sleep=lambda seconds: None)
    assert read(spark, gone, [at(1, b"\x02a"), at(2, b"\x02a"), b'"json"']) == [
        (None, "value: schema 1: the registry does not answer"),
        (None, "value: schema 2: the registry does not answer"),
        ("json", None),
    ]
    (line,) = said
    assert (
        line
        == f"schema registry http://127.0.0.1:{port}: the registry does not answer (ConnectionRefusedError)"
    )


def test_what_is_given_goes_before_the_registry_and_text_has_no_number(
    spark: SparkSession, server: EmbeddedRegistry
) -> None:
    order, given = record("Ours", ID), record("Given", N)
    number = server.register("ours-value", order)
    rows = [at(number, avro(order, {"id": "a"})), at(77_777, avro(given, {"n": 1}))]
    registry = Registry(server.url)
    assert read(spark, registry, rows, given={"77777": json.dumps(given)}, codec="mine") == [
        ('{"id":"a"}', None),
        ('{"n":1}', None),
    ]
    assert read(spark, registry, rows[:1], codec="raw") == [(rows[0].decode(), None)]
    plain = json.dumps({"type": "fixed", "name": "F", "size": len(rows[0])})
    ((text, why),) = read(spark, registry, rows[:1], given={"orders-value": plain})
    assert text is not None, "the schema of the topic has it, zero byte and all"
    assert why is None


def test_json_behind_a_number(spark: SparkSession, server: EmbeddedRegistry) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    number = server.register("j-value", schema, kind="JSON")
    rows = [at(number, b'{"a":[1]}'), at(number, b'{"a"'), at(number, b"\xff")]
    assert read(spark, Registry(server.url), rows) == [
        ('{"a":[1]}', None),
        (None, f"value: schema {number}: not JSON"),
        (None, f"value: schema {number}: not JSON"),
    ]


def test_bytes_of_any_kind_do_not_ask_for_millions_of_schemas(
    spark: SparkSession, server: EmbeddedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that most rows name are asked for, of these the lowest."""
    monkeypatch.setattr(schema_numbers, "NUMBERS_MAX", 2)
    order = record("Often", ID)
    often = server.register("often-value", order)
    asked: list[int] = []

    class Counting(Registry):
        def schema(self, number: int) -> Schema | Missing:
            asked.append(number)
            return super().schema(number)

    rows = [at(number, b"") for number in (50_002, 50_001)] + [at(often, avro(order, {"id": "a"}))] * 2
    found = read(spark, Counting(server.url), rows)
    assert asked == [often, 50_001]
    assert found[0] == (None, f"value: schema 50002: {schema_numbers.TOO_MANY}")
    assert found[2:] == [('{"id":"a"}', None)] * 2


def test_a_snapshot_of_evolving_avro_by_the_command(
    spark: SparkSession,
    server: EmbeddedRegistry,
    kafka: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of a full snapshot and one that builds on it; assembled twice it is the same, and the password is nowhere."""
    stage = play(kafka.bootstrap, f"registry{os.getpid()}")
    old, new = record("Balance", ID), record("Balance", ID, N)
    one, two = (server.register(f"{stage.topic('balances')}-value", schema) for schema in (old, new))
    first, second = at(one, avro(old, {"id": "a"})), at(two, avro(new, {"id": "b", "n": 2}))
    unknown = at(8_888, b"")
    child = f"{stage.namespace}-child"
    play_on(
        stage,
        child,
        parent=f"{stage.namespace}-snap",
        written=[(b'"first"', first), (b'"second"', second), (b'"unknown"', unknown)],
    )
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace]

    def assembled(folder: str, url: str, *which: str) -> tuple[str, dict[str, tuple[str | None, str | None]]]:
        """`content`, and the rows of the delta."""
        names = [part for one in which for part in ("--snapshot", one)]
        monkeypatch.setenv("SNAPKAFKA_SCHEMA_REGISTRY", url.replace("://", "://me:hidden-word@"))
        assert main([*where, *names, "--storage", str(tmp_path / folder)]) == 0
        rows = spark.read.parquet(str(tmp_path / folder / child / "state_delta")).collect()
        (_, manifest) = read_manifest(str(tmp_path / folder / f"{child}.json"))
        return manifest.content, {row.key: (row.value, row.why_undecoded) for row in rows}

    content, rows = assembled("one", server.url, f"{stage.namespace}-snap", child)
    assert rows["first"] == ('{"id":"a","n":null}', None)
    assert rows["second"] == ('{"id":"b","n":2}', None)
    assert rows["unknown"] == (None, "value: schema 8888: the registry does not have it")
    server.register(f"{stage.topic('balances')}-value", record("Balance", ID, N, PAID))
    for folder in ("two", "without"):
        shutil.copytree(tmp_path / "one", tmp_path / folder)
    assert assembled("two", server.url, child) == (content, rows)

    (port,) = free_ports(1)
    other, without = assembled("without", f"http://127.0.0.1:{port}", child)
    assert other != content
    assert without["first"] == (None, f"value: schema {one}: the registry does not answer")
    assert without["late"] == rows["late"]
    said = capfd.readouterr()
    assert "the registry does not answer" in said.err
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [text for text in (*files, said.out.encode(), said.err.encode()) if b"hidden-word" in text]
