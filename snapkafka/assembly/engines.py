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
    """The embedded engine until it hands over, and Spark from then on, for the length of the block.

    Args:
        offsets: about how many one snapshot has to read.

    Raises:
        BadInputError: the options name the embedded engine, and the job has a part that Spark alone does.
        DependencyMissingError: the engine is not installed.
    """

    def __init__(self, job: Job, offsets: int) -> None:
        super().__init__()
        self._job, self._engine, missing = job, None, missing_of("embedded")
        self._needed = f"anything without {missing[0]}" if missing else ""
        if offsets > OFFSETS_MAX:
            self._needed = f"{offsets:,} offsets (at most {OFFSETS_MAX:,})"

    _engine: Engine | None

    def do(self, work: Callable[[Engine], _T]) -> _T:
        """Do some work with the engine; with Spark, if the embedded one hands over."""
        if self._engine is None and (self._job.spec.engine == "spark" or self._needed):
            self._hand_over(self._needed)
        elif self._engine is None:
            from .embedded import EmbeddedEngine

            self._engine = EmbeddedEngine(self._job)
        assert self._engine is not None, "it was chosen"
        try:
            return work(self._engine)
        except HandOverError as reason:
            self._hand_over(str(reason))
            return work(self._engine)

    def _hand_over(self, reason: str) -> None:
        if self._job.spec.engine == "embedded":
            raise BadInputError(
                f"the embedded engine does not do {reason}",
                hint="leave --engine at auto, or set it to spark",
            )
        if self._job.spec.engine == "auto":
            self._job.notify(f"taking Spark: the embedded engine does not do {reason}")
        require_extra("spark", f"Spark (for {reason})" if reason else "Spark")
        from .spark.engine import spark_engine

        self._engine = self.enter_context(spark_engine(self._job))
