"""Logs of records at hand, for either engine: what Kafka's clients would read, without Kafka."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.assembly import Job, JobSpec, Settings
from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.embedded import EmbeddedEngine, batch_of
from snapkafka.assembly.examine import Reading
from snapkafka.assembly.order import Engine, Examined
from snapkafka.assembly.records import Record
from snapkafka.assembly.state import Fold
from snapkafka.checks import Checked, CutView, LogBounds, LogRecord, ReadRange
from snapkafka.manifest import LedgerEntry
from snapkafka.wire import headers as wire
from tests.worlds.stores import LocalStore

ENTRY: Final = LedgerEntry(topic="_snapkafka.taken", topic_id="ab" * 16)
#: What stands for it in headers.
LEDGER: Final = wire.ledger_id(bytes.fromhex(ENTRY.topic_id))


def settings_of(ledger: LedgerEntry, **options: Any) -> Settings:
    """Return settings without the table of pictures and with what was aborted, unless the options name them."""
    return Settings(spec=JobSpec(**{"isolation": "read_uncommitted", "around": 0, **options}), ledger=ledger)


def spec_file(folder: Path, **options: Any) -> list[str]:
    """Write options of the job to a file; return the arguments that name it."""
    path = folder / "spec.json"
    path.write_bytes(msgspec.json.encode(JobSpec(**options)))
    return ["--spec", str(path)]


def record(row: dict[str, Any]) -> Record:
    """Return a row as a record, by the reader of one header."""
    headers = [(it["key"], it["value"]) for it in row["headers"]]
    place, header = (row["topic"], row["partition"], row["offset"]), wire.find(headers)
    found = None if header is None else wire.read(header, LEDGER, wire.tp_check(*place[:2]))
    log, cause = LogRecord(*place), None
    if found is not None:
        log, cause = LogRecord(*place, found.process, found.epoch, found.seq, found.marker), found.cause
    return Record(log, row["timestamp_ms"], row["timestamp_type"], row["key"], row["value"], headers, cause)


def batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    """Return rows as an engine reads them."""
    found = []
    for it in map(record, rows):
        header = wire.find(it.headers)
        found.append((*it.log[:3], *it[1:5], it.headers, header))
    return batch_of(found)


def header_of(it: LogRecord, ledger_id: int = LEDGER) -> bytes:
    """Return our header of a record."""
    stamp = ledger_id, wire.tp_check(*it.tp), it.epoch, it.process, it.seq
    if it.marker:
        return wire.marker(*stamp, 0)
    if it.cause is None:
        return wire.stamp(*stamp)
    (topic, partition), offset = it.cause
    return wire.stamp_with_cause(*stamp, wire.topic_check(topic), partition, offset)


def row_of(it: LogRecord, key: bytes | None = None, value: bytes | None = None) -> dict[str, Any]:
    """Return a record as a row; its key is the number for it, if no other is given."""
    return {
        "topic": it.topic,
        "partition": it.partition,
        "offset": it.offset,
        "headers": [{"key": wire.HEADER, "value": header_of(it)}] if it.process >= 0 else [],
        "timestamp_ms": 0,
        "timestamp_type": 0,
        "value": value,
        "key": b"%d" % it.key_hash if key is None and it.key_hash is not None else key,
    }


class AtHand(EmbeddedEngine):
    """The embedded engine, over rows."""

    def __init__(self, rows: Sequence[dict[str, Any]], settings: Settings) -> None:
        super().__init__(job_of(settings))
        self._rows = rows

    def batches(self, settings: Settings, ranges: Iterable[ReadRange]) -> Iterator[pa.RecordBatch]:
        return (batch([row]) for row in within(self._rows, ranges))


def within(rows: Iterable[dict[str, Any]], ranges: Iterable[ReadRange]) -> list[dict[str, Any]]:
    """Return the rows of ranges, in the order of the log."""
    ends = {item[:2]: item for item in ranges}
    found = [
        row
        for row in rows
        if (of := ends.get((row["topic"], row["partition"]))) and of.start <= row["offset"] < of.end
    ]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def source_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Return rows as Spark's source has them: without headers there is no list."""
    from snapkafka.assembly.spark.kafka_source import SOURCE_SCHEMA

    times = ({"timestamp": it["timestamp_ms"] * 1_000, "timestampType": it["timestamp_type"]} for it in rows)
    found = [it | of | {"headers": it["headers"] or None} for it, of in zip(rows, times, strict=True)]
    return pa.Table.from_pylist(found, schema=arrow_schema(SOURCE_SCHEMA))


def spark_reads(patch: pytest.MonkeyPatch, rows: Sequence[dict[str, Any]], *, tasks: int = 1) -> None:
    """Let Spark's tasks read these rows, in so many partitions."""
    from snapkafka.assembly.spark import engine

    def read_ranges(spark: Any, ranges: Iterable[ReadRange], client: Any) -> Any:
        places = ("topic", "partition", "offset")
        frame = spark.createDataFrame(source_of(within(rows, ranges)))
        return frame.repartitionByRange(tasks, *places).sortWithinPartitions(*places)

    patch.setattr(engine, "read_ranges", read_ranges)


def with_bounds(view: CutView) -> CutView:
    """Return a view of a log that holds whatever is at hand."""
    return CutView(
        view.captured, dict.fromkeys((*view.inputs, *view.changelogs), LogBounds(start=0, end=10**6))
    )


def tables_of(
    folder: Path, view: CutView, rows: Sequence[dict[str, Any]], settings: Settings | None = None
) -> dict[str, list[Any]]:
    """Return every table of a snapshot, row by row."""
    settings = settings_of(ENTRY, bootstrap="") if settings is None else settings
    AtHand(rows, settings).verify(with_bounds(view), settings, store=LocalStore(folder))
    return {of.name: pq.read_table(of).to_pylist() for of in folder.glob("*/*/")}


def job_of(settings: Settings) -> Job:
    """Return a job that reports to nobody."""
    return Job(spec=settings.spec, notify=lambda line: None)


def checked(engine: Engine, view: CutView, ranges: Sequence[ReadRange], settings: Settings) -> Checked:
    """Run the checks on some ranges."""
    reading = Reading(view=view, ranges=tuple(ranges), settings=settings)
    with engine.reading("taken"):
        return Examined(engine, reading, engine.examine(reading)).check()


def state_of(
    view: CutView,
    rows: Sequence[dict[str, Any]],
    parent: CutView | None = None,
    settings: Settings | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of the state, or of its delta on a parent."""
    settings = settings_of(ENTRY, bootstrap="") if settings is None else settings
    nowhere: Any = None
    ranges = tuple(ReadRange(*tp, 0, 10**9) for tp in view.changelogs)
    reading = Reading(view=view, ranges=ranges, settings=settings, tables=(nowhere, ""), parent=parent)
    engine, found = AtHand(rows, settings), list[dict[str, Any]]()

    def take(fold: Fold, part: int) -> Any:
        found.extend(fold.rows().to_pylist())

    engine.examine(reading)
    engine.fold(take)
    return found
