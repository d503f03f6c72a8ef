"""Bytes to columns: Spark reads our header as `wire.headers` does."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import SOURCE_SCHEMA, local_frame, read_ranges, stamped, stamps
from snapkafka.assembly.spark.reading.header_columns import other_headers
from snapkafka.wire import headers as wire

pytestmark = pytest.mark.nightly

LEDGER = 0xBEEF
Headers = list[tuple[str, bytes | None]]


def record(offset: int, headers: Headers, topic: str = "täglich", partition: int = 3) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp_ms": 0,
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


def test_other_headers_keep_order_repeated_keys_and_nulls(spark: SparkSession) -> None:
    rows = [
        record(0, [("a", b"1"), (wire.HEADER, b"x"), ("b", None), ("a", b"2")]),
        record(1, [(wire.HEADER, b"x")]),
        record(2, []),
    ]
    found = local_frame(spark, SOURCE_SCHEMA, rows).select("offset", other_headers().alias("rest")).collect()
    rest = {row.offset: [tuple(header) for header in row.rest] for row in found}
    assert rest == {0: [("a", b"1"), ("b", None), ("a", b"2")], 1: [], 2: []}


def test_nothing_to_read_is_no_rows(spark: SparkSession) -> None:
    found = read_ranges(spark, [], bootstrap="127.0.0.1:1")
    assert found.count() == 0
    assert [f"{name} {kind}" for name, kind in found.dtypes] == SOURCE_SCHEMA.split(", ")
