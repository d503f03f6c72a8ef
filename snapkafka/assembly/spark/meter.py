"""The steps that Spark is at, by the names that its own page shows, and how many of their tasks are done."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync

from snapkafka.assembly.job import Job

#: What a job, and each of its stages, is called by.
NAMES: Final = ("spark.job.description", "callSite.short")


@contextlib.contextmanager
def step(spark: SparkSession, name: str) -> Iterator[None]:
    """Name the work that this thread asks of Spark in the block."""
    context = spark.sparkContext
    with SCCallSiteSync(context):  # otherwise pyspark calls what it collects by the line that asked for it
        for key in NAMES:
            context.setLocalProperty(key, name)
        try:
            yield
        finally:
            for key in NAMES:
                context.setLocalProperty(key, None)  # takes it away


@contextlib.contextmanager
def reported(spark: SparkSession, name: str, job: Job) -> Iterator[None]:
    """Report the steps that run in the block as the progress of a snapshot, each time that they are others."""
    end, began = threading.Event(), time.monotonic()

    def watch() -> None:
        before = ""
        with contextlib.suppress(Py4JError):  # Spark is gone: whoever works with it says so
            while not end.wait(job.progress_every_s):
                if (now := _steps(spark)) not in ("", before):
                    before = now
                    job.progress(f"{name}: {time.monotonic() - began:.0f} s; {now}")

    thread = threading.Thread(target=watch, name="snapkafka-meter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _steps(spark: SparkSession) -> str:
    """Return the running steps in words; the tasks of stages of one name are added up."""
    tracker, done, tasks = spark.sparkContext.statusTracker(), Counter[str](), Counter[str]()
    for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()):
        if stage is not None:
            done[stage.name] += stage.numCompletedTasks
            tasks[stage.name] += stage.numTasks
    return "; ".join(f"{name}: {done[name]} of {tasks[name]} tasks" for name in sorted(tasks))
