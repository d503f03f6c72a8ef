"""Bytes to columns: Spark reads our header as `wire.headers` does, and keys and values as people wrote them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.decode import key_and_value, other_headers, stamped, stamps
from snapkafka.assembly.lookups import local_frame
from snapkafka.assembly.source import SOURCE_SCHEMA, read_ranges
from snapkafka.wire import headers as wire

pytestmark = pytest.mark.spark

LEDGER = 0xBEEF
Headers = list[tuple[str, bytes | None]]


def record(offset: int, headers: Headers, topic: str = "täglich", partition: int = 3) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC),
        "key": None,
        "value": None,
        "headers": [{"key": key, "value": value} for key, value in headers],
    }


def some_headers(rng: random.Random) -> Headers:
    """Ours, damaged ones, others; once, twice, or not at all."""
    topic, partition = "täglich", rng.choice((3, 3, 3, 4))
    check, ledger = wire.tp_check(topic, partition), rng.choice((LEDGER, LEDGER, LEDGER, 7))
    epoch, process = rng.choice((0, 1, 2**32 - 1, rng.getrandbits(32))), rng.getrandbits(31)
    seq = rng.choice((0, 255, 2**40 - 1, rng.getrandbits(40)))
    header = rng.choice(
        (
            wire.stamp(ledger, check, epoch, process, seq),
            wire.stamp_with_cause(ledger, check, epoch, process, seq, 1, 2, rng.choice((3, 2**32))),
            wire.marker(ledger, check, epoch, process, seq, 9),
        )
    )
    if rng.random() < 0.3:
        damaged = bytearray(header)
        damaged[rng.randrange(5)] ^= 1 << rng.randrange(8)
        header = rng.choice((bytes(damaged), header[:-1], header + b"\0", b"", rng.randbytes(18)))
    found: Headers = [(wire.HEADER, header)]
    if rng.random() < 0.2:
        found.insert(0, (wire.HEADER, wire.stamp(LEDGER, wire.tp_check(topic, 3), 5, 6, 7)))
    if rng.random() < 0.1:
        found.append((wire.HEADER, None))
    if rng.random() < 0.5:
        found.insert(rng.randint(0, len(found)), ("other", rng.choice((b"x", None))))
    return found if rng.random() < 0.95 else []


def test_headers_are_read_as_the_wire_reads_them(spark: SparkSession) -> None:
    rng = random.Random(11)
    written = [some_headers(rng) for _ in range(2000)]
    rows = [record(offset, headers) for offset, headers in enumerate(written)]
    found = stamped(local_frame(spark, SOURCE_SCHEMA, rows), ledger_id=LEDGER)
    check, kinds = wire.tp_check("täglich", 3), set()
    for row in stamps(found).collect():
        header = wire.find(written[row.offset])
        expected = wire.read(header, LEDGER, check) if header is not None else None
        actual = (row.process, row.epoch, row.seq, row.marker)
        cause = (row.cause_check, row.cause_partition, row.cause_offset)
        if expected is None:
            assert (actual, cause) == ((None, None, None, False), (None,) * 3), written[row.offset]
            kinds.add("none")
        else:
            assert actual == (expected.process, expected.epoch, expected.seq, expected.marker)
            assert cause == (expected.cause or (None,) * 3), written[row.offset]
            assert header is not None
            kinds.add(f"{len(header)} bytes")
    assert kinds == {"none", "18 bytes", "22 bytes", "26 bytes", "27 bytes"}, "every kind was there"


def test_other_headers_stay_the_last_of_each_name(spark: SparkSession) -> None:
    rows = [
        record(0, [("a", b"1"), (wire.HEADER, b"x"), ("b", None), ("a", b"2")]),
        record(1, [(wire.HEADER, b"x")]),
        record(2, []),
    ]
    found = local_frame(spark, SOURCE_SCHEMA, rows).select("offset", other_headers().alias("rest")).collect()
    assert {row.offset: row.rest for row in found} == {0: {"a": b"2", "b": None}, 1: {}, 2: {}}


@pytest.mark.parametrize(
    ("codec", "raw", "text", "why"),
    [
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
        ("pickle", b"x", None, "value: codec pickle is not decoded"),
        ("pickle", None, None, None),
        (None, b'"a text"', "a text", None),
        (None, b"left as it is", "left as it is", None),
        (None, b'"unfinished', '"unfinished', None),
        (None, b"\x00\x01\xfe", None, "value: not UTF-8"),
        (None, b"", "", None),
    ],
)
def test_texts(
    spark: SparkSession, codec: str | None, raw: bytes | None, text: str | None, why: str | None
) -> None:
    row = local_frame(spark, "key binary, value binary", [{"key": None, "value": raw}])
    column = fn.lit(codec) if codec is not None else None
    (found,) = row.select(*key_and_value({"key": column, "value": column})).collect()
    assert (found.key, found.value, found.value_raw, found.why_undecoded) == (None, text, raw, why)


def test_both_reasons_are_given(spark: SparkSession) -> None:
    row = local_frame(spark, "key binary, value binary", [{"key": b"\xff", "value": b"{"}])
    (found,) = row.select(*key_and_value({"key": fn.lit("json"), "value": fn.lit("json")})).collect()
    assert found.why_undecoded == "key: not UTF-8; value: not JSON"


def test_nothing_to_read_is_no_rows(spark: SparkSession) -> None:
    found = read_ranges(spark, [], bootstrap="127.0.0.1:1")
    assert found.count() == 0
    assert [f"{name} {kind}" for name, kind in found.dtypes] == SOURCE_SCHEMA.split(", ")
