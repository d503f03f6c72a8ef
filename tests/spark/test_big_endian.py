"""Numbers in bytes are what Python reads there, by either way, as Spark compiles it and as it plans with it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import local_frame
from snapkafka.assembly.spark.reading import big_endian
from snapkafka.assembly.spark.reading.big_endian import number

pytestmark = pytest.mark.nightly

#: Where numbers stand in headers, and whole ones: (start, size).
PLACES = ((1, 8), (4, 8), (12, 7), (19, 8), (23, 5), (2, 1), (1, 2))
LONGEST = 27


def test_numbers_are_what_python_reads(spark: SparkSession) -> None:
    rng = random.Random(5)
    texts = [rng.randbytes(LONGEST) for _ in range(300)]
    texts += [bytes(LONGEST), b"\xff" * LONGEST, b"\x7f" + b"\xff" * 26, b"\x80" + bytes(26)]
    wanted = {
        text: [int.from_bytes(text[start - 1 : start - 1 + size], signed=size == 8) for start, size in PLACES]
        for text in texts
    }
    at_hand = local_frame(spark, "data binary", [{"data": text} for text in texts])
    for table in (at_hand, at_hand.repartition(2)):  # Spark computes the first as it plans
        found = _read(table)
        assert "sortprefix" in found._jdf.queryExecution().analyzed().toString().lower()
        assert {bytes(row[0]): list(row[1:]) for row in found.collect()} == wanted


def test_what_spark_does_not_give_out_is_read_by_digits(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = bytes(range(200, 200 + LONGEST))
    table = local_frame(spark, "data binary", [{"data": text}]).repartition(1)
    found = _read(table).first()

    def absent(part: object) -> None:
        raise Py4JError("no such class")

    monkeypatch.setattr(big_endian, "_sort_prefix", absent)
    by_digits = _read(table)
    assert "sortprefix" not in by_digits._jdf.queryExecution().analyzed().toString().lower()
    assert by_digits.first() == found


def test_nothing_and_too_little_end_no_job(spark: SparkSession) -> None:
    rows: list[dict[str, Any]] = [{"data": None}, {"data": b""}, {"data": b"\x01"}]
    _read(local_frame(spark, "data binary", rows).repartition(1)).collect()


def _read(table: DataFrame) -> DataFrame:
    numbers = (number(fn.col("data"), *place).alias(f"n{nth}") for nth, place in enumerate(PLACES))
    return table.select("data", *numbers)
