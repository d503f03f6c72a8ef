"""Spark's tasks, over rows of its Kafka source: they find, and write, what the other engine does."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import PLAIN, Decoding, Settings, compare
from snapkafka.assembly.records import pieces
from snapkafka.assembly.spark import engine
from snapkafka.assembly.spark.engine import SparkEngine, rows_of
from snapkafka.checks import CutView, LogRecord, Status, run
from snapkafka.wire import headers as wire
from tests.spark.at_hand import (
    ENTRY,
    LEDGER,
    AtHand,
    checked,
    job_of,
    record,
    row_of,
    settings_of,
    source_of,
    spark_reads,
    with_bounds,
)
from tests.spark.damaged_logs import EVERY_KIND, damaged
from tests.spark.test_tables import captured, row
from tests.worlds.stores import LocalStore

OWN: Final = Decoding(codecs=("tests.spark.own_codecs",), unpickle=True)
#: Values as services write them, and as nobody would.
VALUES: Final = (b"1", b'"a"', b'{"a": {"b": [null]}}', b"text", b"", b"\xff\xfe", b"\x00", b"1" * 5000, None)
SETS: Final = (
    (b'[1,"s"]', b'"a"'), (b'[1,"s"]', b'"b"'), (b'[2,"s"]', b'"a"'), (b'[15,"t"]', b'[["x",[1,2]],["x"]]'),
    (b'[1,"gone"]', b"7"), (b'[2,"gone"]', b"7"), (b'[9,"s"]', b"1"), (b'[1,"s"]', b"\xff"), (b'[1,"s"]', None),
)  # fmt: skip
WINDOWS: Final = ((b'["k",[1.0,10.9]]', b"1"), (b'["k",[1.0,10.9]]', b"9"), (b"7", b"1"), (b"\xff", b"1"))


def rows() -> list[dict[str, Any]]:
    """White records of process 1 in one input and in three tables: plain, of sets, windowed."""
    content: dict[str, list[tuple[bytes | None, bytes | None]]] = {
        "in": [(value, value) for value in VALUES],
        "plain": [*((b"%d" % (n % 5), value) for n, value in enumerate(VALUES)), (b"1", None), (None, b"x")],
        "sets": list(SETS),
        "windows": list(WINDOWS),
    }
    return [
        row(LogRecord(topic, 0, offset, 1, 0, offset), key, value)
        | {"timestamp_ms": 1_767_225_600_123 + 1_000 * offset, "timestamp_type": offset % 2}
        for topic, pairs in content.items()
        for offset, (key, value) in enumerate(pairs)
    ]


def view_of(codecs: dict[str, Any]) -> CutView:
    """The snapshot of `test_tables`, with ends past all of these records, and with these codecs."""
    whole = captured()
    tables = (replace(it, end=99, **(codecs if it.table == "plain" else {})) for it in whole.changelogs)
    return CutView(
        replace(
            whole,
            inputs=tuple(replace(it, log_end=99, **codecs) for it in whole.inputs),
            senders=tuple(replace(it, white_end=99, last_seq=98) for it in whole.senders),
            changelogs=tuple(tables),
        )
    )


def by_spark(spark: SparkSession, settings: Settings) -> SparkEngine:
    return SparkEngine(spark, job_of(settings))


@pytest.mark.timeout(900)
def test_damage_of_every_kind_is_found_as_on_lists(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the log lies there: its tasks divide partitions, and so do the pieces of a task."""
    settings, snapshot = settings_of(ENTRY, bootstrap=""), damaged(EVERY_KIND)
    written = [row_of(it) for it in snapshot.records]
    spark_reads(monkeypatch, written, tasks=5)
    for by in (by_spark(spark, settings), AtHand(written, settings)):
        assert checked(by, snapshot.view, snapshot.read, settings) == run(snapshot.log)


@pytest.mark.parametrize("limits", [(10**9, 10**9), (10**5, 10**9), (10**9, 1_000)])
@pytest.mark.parametrize(
    ("codecs", "decoding"),
    [
        ({}, PLAIN),
        pytest.param({"key_codec": "reversed", "value_codec": "pickle"}, OWN, marks=pytest.mark.nightly),
    ],
)
def test_rows_and_digests_of_every_table(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    codecs: dict[str, Any],
    decoding: Decoding,
    limits: tuple[int, int],
) -> None:
    settings = replace(settings_of(ENTRY, bootstrap=""), decoding=decoding)
    view = with_bounds(view_of(codecs))
    for name, limit in zip(("CHANGES_PER_FILE", "BYTES_PER_FILE"), limits, strict=True):
        monkeypatch.setattr(engine, name, limit)
    spark_reads(monkeypatch, rows(), tasks=3)
    found = []
    for name, by in (("spark", by_spark(spark, settings)), ("embedded", AtHand(rows(), settings))):
        found.append(by.verify(view, settings, store=LocalStore(tmp_path / name)))
    (here, in_spark), (there_too, embedded) = found
    assert in_spark == embedded
    assert (sum("/state/" in file for file in here.files) > 1) == (min(limits) < 10**9)
    assert compare(here, there_too, ()).status is Status.PASSED
    assert here.queries.keys() == there_too.queries.keys()


def test_the_source_s_rows_are_records_as_the_wire_reads_them() -> None:
    check = wire.tp_check("in", 0)
    plain, other = wire.stamp(LEDGER, check, 3, 4, 5), wire.stamp(LEDGER ^ 1, check, 3, 4, 5)
    caused = wire.stamp_with_cause(LEDGER, check, 2**32 - 1, 2**32 - 2, 2**40 - 1, 65_535, 65_534, 2**40 - 2)
    odd: list[list[bytes | None]] = [
        [], [plain], [caused], [wire.marker(LEDGER, check, 7, 1, 2, 3)], [other], [b""], [None], [plain[:-1]],
        [other, plain], [plain, other], [plain, None], [plain, caused],
    ]  # fmt: skip
    of = {"topic": "in", "partition": 0, "timestamp_ms": -1, "timestamp_type": 1, "key": None, "value": b"v"}
    source = [
        of | {"offset": n, "headers": [{"key": "a", "value": b"1"}, *({"key": wire.HEADER, "value": h} for h in some)]}
        for n, some in enumerate(odd)
    ]  # fmt: skip
    source.append(of | {"offset": 99, "headers": []})
    batches = source_of(source).to_batches(max_chunksize=5)
    read = map(rows_of, [batches[0].slice(2), *batches[1:]])
    found = [it for piece in pieces(read, LEDGER) for it in piece.records()]
    assert found == list(map(record, source[2:]))
    assert sum(it.log.process >= 0 for it in found) == 4
