"""The choice of the engine: the embedded one for small snapshots, which hands over what it does not do to Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import missing_of, require_extra

from .job import Job
from .order import Engine, HandOverError

#: Up to so many offsets `auto` takes the embedded engine.
OFFSETS_MAX: Final = 2_000_000

_T = TypeVar("_T")


class Chosen(ExitStack):
    """The engines of a job, for the length of the block: the embedded one, and Spark for what that hands over."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job
        self._spark: Engine | None = None

    def do(self, offsets: int, work: Callable[[Engine], _T]) -> _T:
        """Do some work with an engine.

        Args:
            offsets: about how many it has to read.

        Raises:
            BadInputError: the options name the embedded engine, and the work has a part that Spark alone does.
            DependencyMissingError: the engine is not installed.
        """
        asked, needed = self._job.spec.engine, ""
        if missing := missing_of("embedded"):
            needed = f"anything without {missing[0]}"
        elif offsets > OFFSETS_MAX:
            needed = f"{offsets:,} offsets (at most {OFFSETS_MAX:,})"
        if asked != "spark" and not needed:
            from .embedded import EmbeddedEngine

            try:
                return work(EmbeddedEngine(self._job))
            except HandOverError as reason:
                needed = str(reason)
        if asked == "embedded":
            raise BadInputError(
                f"the embedded engine does not do {needed}", hint="leave --engine at auto, or set it to spark"
            )
        if asked == "auto":
            self._job.notify(f"taking Spark: the embedded engine does not do {needed}")
        require_extra("spark", f"Spark (for {needed})" if needed else "Spark")
        if self._spark is None:
            from .spark.engine import spark_engine

            self._spark = self.enter_context(spark_engine(self._job, offsets))
        return work(self._spark)
