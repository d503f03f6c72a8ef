"""Spark as the engine of the job: its Kafka source reads, its tasks examine, its shuffle brings the changes of a key
together."""

from __future__ import annotations

import math
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.examine import CHANGES, Examination, Part, Reading
from snapkafka.assembly.job import Job
from snapkafka.assembly.order import Engine
from snapkafka.assembly.records import ROWS
from snapkafka.assembly.state import Fold
from snapkafka.assembly.table_files import Written
from snapkafka.kafka.login.security import Security
from snapkafka.wire import headers as wire

from .kafka_source import read_ranges
from .session import session

#: What the tasks give: changes, and in a last row what else they have made.
EXAMINED: Final = f"{CHANGES}, part binary"
WRITTEN: Final = "path string, bytes bigint, sha256 string, rows bigint, digest string"
#: A file for so many changes, and bytes of them, at most: the task that writes it holds them.
CHANGES_PER_FILE: Final = 250_000
BYTES_PER_FILE: Final = 64 << 20


@contextmanager
def spark_engine(job: Job, offsets: int) -> Iterator[SparkEngine]:
    """Provide Spark for the length of the block, in which it has to read about so many offsets."""
    job.notify("starting Spark")
    before = signal.getsignal(signal.SIGINT)
    with session(ui=job.spec.ui, offsets=offsets) as spark:
        if signal.getsignal(signal.SIGINT) is not before:  # Spark takes over Ctrl-C when it starts
            signal.signal(signal.SIGINT, before)
        if job.spec.ui and spark.sparkContext.uiWebUrl:
            job.notify(f"Spark's page: {spark.sparkContext.uiWebUrl}")
        yield SparkEngine(spark, job)


class SparkEngine(Engine):
    """A session, and the job that it works for; the changes of a log are persisted."""

    name = "spark"

    def __init__(self, spark: SparkSession, job: Job) -> None:
        super().__init__(job)
        self._spark = spark
        self._changes: DataFrame | None = None
        self._reading: Reading | None = None
        self._files, self._name = 1, ""

    def versions(self) -> dict[str, str]:
        return {"spark": self._spark.version}

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Give up what is persisted at the end.

        After a failed job its tasks still use it for a moment; a session that stops meanwhile prints fifty lines about
        that before the error that counts.
        """
        self._name = name
        try:
            yield
        finally:
            self._spark.sparkContext.setJobDescription(None)
            if self._changes is not None:
                self._changes.unpersist(blocking=True)
                self._changes = None

    def examine(self, reading: Reading) -> list[Part]:
        spec = reading.settings.spec
        ranges = reading.to_read()
        client = {"bootstrap.servers": spec.bootstrap, "isolation.level": spec.isolation}
        client |= Security.from_environment(os.environ).for_java()

        def examined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            work, schema = Examination(reading), arrow_schema(EXAMINED)
            for changes in work.take(map(rows_of, batches)):
                parts = pa.nulls(len(changes), pa.binary())
                yield pa.RecordBatch.from_arrays([*changes.columns, parts], schema=schema)
            yield pa.RecordBatch.from_pylist([{"part": pickle.dumps(work.part())}], schema=schema)

        done = read_ranges(self._spark, ranges, client).mapInArrow(examined, EXAMINED)
        if not reading.is_again:
            self._reading, self._changes = reading, done.persist(StorageLevel.DISK_ONLY)
            done = self._changes
        self._begin("reading once more" if reading.is_again else "reading every record")
        rows = done.where("part IS NOT NULL").select("part").collect()
        parts = [pickle.loads(row.part) for row in rows]
        if not reading.is_again:
            offsets, size = sum(it.end - it.start for it in ranges), sum(part.folded for part in parts)
            self._files = max(1, math.ceil(offsets / CHANGES_PER_FILE), math.ceil(size / BYTES_PER_FILE))
        return parts

    def fold(self, write: Callable[[Fold, int], Written]) -> list[Written]:
        """Fold; several files if there may be many changes."""
        reading, files = self._reading, self._files
        assert self._changes is not None and reading is not None, "it is examined before"

        def folded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            fold = reading.new_fold()
            for batch in batches:
                fold.take(batch.drop_columns("part"))
            if fold.changes or files == 1:
                context = TaskContext.get()
                assert context is not None, "this is a task"
                yield pa.RecordBatch.from_pylist([write(fold, context.partitionId())._asdict()])

        needed = self._changes.where("bucket IS NOT NULL")
        together = needed.coalesce(1) if files == 1 else needed.repartition(files, "place", "bucket")
        self._begin("table state")
        return [Written(*row) for row in together.mapInArrow(folded, WRITTEN).collect()]

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        assert self._changes is not None, "it is examined before"
        self._changes.where("part IS NULL").createOrReplaceTempView("changes")
        self._begin("V3: key by key")
        found: Sequence[tuple[Any, ...]] = self._spark.sql(question).collect()
        return found

    def _begin(self, step: str) -> None:
        """Name a step, in the log of the job and on Spark's page."""
        self._job.notify(f"{self._name}: {step}")
        self._spark.sparkContext.setJobDescription(step)


def rows_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows of the source, by `ROWS`."""
    at_ms = pc.divide(batch.column("timestamp").cast(pa.int64()), 1_000)
    place, facts = (("topic", "partition", "offset"), ("timestampType", "key", "value", "headers"))
    columns = [*map(batch.column, place), at_ms, *map(batch.column, facts), ours_in(batch.column("headers"))]
    return pa.RecordBatch.from_arrays(
        [it.cast(of.type) for it, of in zip(columns, ROWS, strict=True)], schema=ROWS
    )


def ours_in(headers: pa.ListArray) -> pa.BinaryArray:
    """Return our header of each record, the last if there are several; None: there is none."""
    pairs = headers.flatten()
    at = np.flatnonzero(pc.equal(pairs.field("key"), wire.HEADER).to_numpy(zero_copy_only=False))
    last = np.full(len(headers), -1)
    last[pc.list_parent_indices(headers).to_numpy()[at]] = at  # in order: the last one stays
    return pairs.field("value").take(pa.array(last, mask=last < 0))
