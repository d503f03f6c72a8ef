"""Describe what Spark is at: each step by its name, and how much of the log it has read.

The names are those that Spark's own page shows, for the job and for each of its stages. How much is read comes from
Spark's books, not from a guess: an observation on the records as they are read, which is brought up to date whenever a
task has ended.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.traceback_utils import SCCallSiteSync

from snapkafka.assembly.progress import Step, Work, Working
from snapkafka.manifest import CheckEntry, Manifest

__all__ = ["Meter", "observed", "step"]

#: What a job, and each of its stages, is called by.
NAMES: Final = ("spark.job.description", "callSite.short")
#: How often Spark is asked.
EVERY_S: Final = 0.5
_OBSERVATION: Final = "snapkafka: read"


@contextlib.contextmanager
def step(spark: SparkSession, name: str) -> Iterator[None]:
    """Name what this thread asks of Spark in the block, on Spark's page and in the reports of a `Meter`."""
    context = spark.sparkContext
    before = [context.getLocalProperty(key) for key in NAMES]
    # Otherwise pyspark calls what it collects by the line that asked for it.
    with SCCallSiteSync(context):
        for key in NAMES:
            context.setLocalProperty(key, name)
        try:
            yield
        finally:
            for key, value in zip(NAMES, before, strict=True):
                context.setLocalProperty(key, value)  # None takes it away


def observed(records: DataFrame) -> DataFrame:
    """The records, counted as they are read, with the bytes of their keys and values: for `Meter.reading`."""
    size = fn.coalesce(fn.length("key"), fn.lit(0)) + fn.coalesce(fn.length("value"), fn.lit(0))
    return records.observe(
        _OBSERVATION,
        fn.count(fn.lit(1)).alias("records"),
        fn.coalesce(fn.sum(size), fn.lit(0)).alias("bytes"),
    )


class Meter:
    """Report how far the work on a snapshot is, while it is done, and afterwards what it came to.

    Args:
        name: of the snapshot.
        tell: is called, from another thread too; not while nothing changes.
    """

    def __init__(self, spark: SparkSession, name: str, tell: Callable[[Working], None]) -> None:
        self._spark, self._name, self._tell = spark, name, tell
        self._began = time.monotonic()
        self._records_max = 0
        self._read: Any = None  # Spark's node that counts
        self._end = threading.Event()

    @contextlib.contextmanager
    def reading(self, kept: DataFrame, records_max: int) -> Iterator[None]:
        """While the block lasts, `kept` is read: persisted, and made of `observed` records.

        Args:
            records_max: more than these it cannot be.
        """
        self._records_max, self._read = records_max, _observing(self._spark, kept)
        thread = threading.Thread(target=self._watch, name="snapkafka-meter", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()
        self._tell(replace(self.now(), steps=()))

    def now(self) -> Working:
        """How far it is."""
        records, size = self._amount()
        return Working(
            id=self._name,
            records=records,
            records_max=self._records_max,
            bytes=size,
            seconds=round(self._seconds(), 1),
            steps=self._steps(),
        )

    def work(self, checks: Iterable[CheckEntry], written: Manifest | None = None) -> Work:
        """Return what it came to.

        Args:
            written: the manifest, if tables were written.
        """
        records, size = self._amount()
        tables = () if written is None else written.tables
        return Work(
            id=self._name,
            records_read=records,
            bytes_read=size,
            tables_written=len(tables),
            rows_written=sum(table.rows for table in tables),
            bytes_written=sum(file.bytes for table in tables for file in table.files),
            checks=tuple(check.name for check in checks if check.run),
            seconds=round(self._seconds(), 3),
        )

    def _watch(self) -> None:
        before = None
        with contextlib.suppress(Py4JError):  # Spark is gone: whoever works with it says so
            while not self._end.wait(EVERY_S):
                now = self.now()
                if (now.records, now.steps) != before:
                    before = now.records, now.steps
                    self._tell(now)

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _amount(self) -> tuple[int, int]:
        if self._read is None:
            return 0, 0
        counted = self._read.collectedMetrics()
        return counted.getLong(0), counted.getLong(1)

    def _steps(self) -> tuple[Step, ...]:
        """Of stages that have one name the tasks are added up."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done, tasks = Counter[str](), Counter[str]()
        for stage in stages:
            if stage is not None:
                done[stage.name] += stage.numCompletedTasks
                tasks[stage.name] += stage.numTasks
        return tuple(Step(name=name, done=done[name], tasks=tasks[name]) for name in sorted(tasks))


def _observing(spark: SparkSession, kept: DataFrame) -> Any:
    """The node of the plan behind a persisted table that counts its records."""
    cached = spark._jsparkSession.sharedState().cacheManager().lookupCachedData(kept._jdf)
    node = cached.get().cachedRepresentation().cachedPlan()
    while node.nodeName() != "CollectMetrics":
        node = node.children().head()
    return node
