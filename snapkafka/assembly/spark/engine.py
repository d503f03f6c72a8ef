"""Spark as the engine of the job: a session for its length, a meter for each snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from snapkafka.assembly.pipeline import Job, Task
from snapkafka.assembly.progress import Work
from snapkafka.assembly.settings import Settings
from snapkafka.checks import Checked, CutView
from snapkafka.manifest import Manifest

from . import job as spark_job
from .interrupts import interruptible_again
from .reading.meter import Meter
from .reading.session import session


@contextmanager
def spark_engine(job: Job, offsets: int) -> Iterator[SparkEngine]:
    """Provide Spark for the length of the block."""
    job.notify("starting Spark")
    with session(offsets=offsets, ui=job.spec.ui) as spark:
        interruptible_again()
        if job.spec.ui and spark.sparkContext.uiWebUrl:
            job.notify(f"Spark's page: {spark.sparkContext.uiWebUrl}")
        yield SparkEngine(spark, job)


class SparkEngine:
    """A session, and the job that it works for."""

    def __init__(self, spark: SparkSession, job: Job) -> None:
        self._spark, self._job = spark, job

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Assemble a snapshot; see `job.assemble`."""
        meter = Meter(self._spark, task.view.captured.id, self._job.progress)
        manifest = spark_job.assemble(
            self._spark,
            task.view,
            settings,
            task.store,
            base=task.base,
            wanted=task.wanted,
            facts=task.facts,
            require_same_log=task.require_same_log,
            meter=meter,
            notify=self._job.notify,
        )
        return manifest, meter.work(manifest.checks, written=manifest)

    def verify(
        self, view: CutView, settings: Settings, folder: Path | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Verify a snapshot; see `job.verify`."""
        meter = Meter(self._spark, view.captured.id, self._job.progress)
        checked = spark_job.verify(
            self._spark, view, settings, folder=folder, meter=meter, notify=self._job.notify
        )
        return checked, lambda manifest: meter.work(manifest.checks)
