"""Spark as the engine of the job: a session for its length, a meter for each snapshot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from snapkafka.assembly.order import Engine, Log
from snapkafka.assembly.pipeline import Job
from snapkafka.assembly.settings import Settings
from snapkafka.checks import CutView, ReadRange
from snapkafka.errors import BadInputError
from snapkafka.kafka.records.far_times import first_far

from .interrupts import interruptible_again
from .job import reading
from .reading.meter import Meter
from .reading.session import session

#: What Java says of a time past what 64 bits of microseconds hold.
OVERFLOW: Final = "long overflow"


@contextmanager
def spark_engine(job: Job, offsets: int) -> Iterator[SparkEngine]:
    """Provide Spark for the length of the block."""
    job.notify("starting Spark")
    with session(offsets=offsets, ui=job.spec.ui) as spark:
        interruptible_again()
        if job.spec.ui and spark.sparkContext.uiWebUrl:
            job.notify(f"Spark's page: {spark.sparkContext.uiWebUrl}")
        yield SparkEngine(spark, job)


class SparkEngine(Engine):
    """A session, and the job that it works for."""

    name = "spark"

    def __init__(self, spark: SparkSession, job: Job) -> None:
        super().__init__(job)
        self._spark = spark

    def versions(self) -> dict[str, str]:
        return {"spark": self._spark.version}

    @contextmanager
    def read(
        self, view: CutView, ranges: Sequence[ReadRange], settings: Settings, *, tables: bool
    ) -> Iterator[Log]:
        meter = Meter(self._spark, view.captured.id, self._job.progress)
        try:
            with reading(self._spark, view, ranges, settings, light=not tables) as log, meter.reading():
                yield log
        except Exception as error:
            if OVERFLOW not in str(error):
                raise
            found = asyncio.run(first_far(self._job.connection(), view.bounds or ()))
            raise BadInputError(
                f"{found or 'a record has a time'}: Spark cannot read that (nanoseconds?)",
                hint="up to 200,000 offsets the embedded engine reads it; let the producer write milliseconds",
            ) from error
