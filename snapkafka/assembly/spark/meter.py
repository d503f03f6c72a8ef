"""The steps that Spark is at, by name, and how many of their tasks are done.

The names are those that Spark's own page shows, for the job and for each of its stages.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.traceback_utils import SCCallSiteSync

from snapkafka.assembly.progress import Step, Working

#: What a job, and each of its stages, is called by.
NAMES: Final = ("spark.job.description", "callSite.short")
#: How often Spark is asked.
EVERY_S: Final = 0.5


@contextlib.contextmanager
def step(spark: SparkSession, name: str) -> Iterator[None]:
    """Name the work that this thread asks of Spark in the block, on Spark's page and in the reports of a `Meter`."""
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


class Meter:
    """A meter of the work on a snapshot: its progress while it runs.

    Args:
        name: of the snapshot.
        progress: called with each change, also from another thread.
    """

    def __init__(self, spark: SparkSession, name: str, progress: Callable[[Working], None]) -> None:
        self._spark, self._name, self._progress = spark, name, progress
        self._began = time.monotonic()
        self._end = threading.Event()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Report the steps that run in the block."""
        thread = threading.Thread(target=self._watch, name="snapkafka-meter", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join()

    def now(self) -> Working:
        """Return the steps that run."""
        return Working(id=self._name, seconds=round(time.monotonic() - self._began, 1), steps=self._steps())

    def _watch(self) -> None:
        before = None
        with contextlib.suppress(Py4JError):  # Spark is gone: whoever works with it says so
            while not self._end.wait(EVERY_S):
                now = self.now()
                if now.steps != before:
                    before = now.steps
                    self._progress(now)

    def _steps(self) -> tuple[Step, ...]:
        """Return the running steps; the tasks of stages of one name are added up."""
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done, tasks = Counter[str](), Counter[str]()
        for stage in stages:
            if stage is not None:
                done[stage.name] += stage.numCompletedTasks
                tasks[stage.name] += stage.numTasks
        return tuple(Step(name=name, done=done[name], tasks=tasks[name]) for name in sorted(tasks))
