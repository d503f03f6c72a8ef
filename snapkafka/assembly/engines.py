"""The choice of the engine: the embedded one for small snapshots, which hands over what it does not do to Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeVar

from snapkafka.errors import BadInputError
from snapkafka.runtime.extras import missing_of, require_engine, require_extra

from .job import Job
from .order import Engine, HandOverError

#: Up to so many offsets `auto` takes the embedded engine.
OFFSETS_MAX: Final = 2_000_000

_T = TypeVar("_T")


@contextmanager
def opened(job: Job, offsets: int) -> Iterator[Chosen]:
    """Provide the engine for the length of the block.

    Args:
        offsets: about how many one snapshot has to read.

    Raises:
        BadInputError: the options name the embedded engine, and the job has a part that Spark alone does.
        DependencyMissingError: the engine is not installed.
    """
    require_engine(job.spec.engine)
    with ExitStack() as stack:
        engine = Chosen(job, stack)
        needed = _needs_spark(job, offsets)
        if job.spec.engine == "spark" or needed:
            engine.hand_over(needed)
        yield engine


def _needs_spark(job: Job, offsets: int) -> str:
    """Return the part of a job that Spark alone does; empty: there is none."""
    if offsets > OFFSETS_MAX:
        return f"{offsets:,} offsets (at most {OFFSETS_MAX:,})"
    missing = missing_of("embedded")
    return f"anything without {missing[0]}" if missing else ""


class Chosen:
    """The embedded engine until it hands over, and Spark from then on."""

    def __init__(self, job: Job, stack: ExitStack) -> None:
        self._job, self._stack = job, stack
        self._engine: Engine | None = None

    def hand_over(self, reason: str) -> Engine:
        """Use Spark from now on.

        Raises:
            BadInputError: the options name the embedded engine.
        """
        if self._job.spec.engine == "embedded":
            raise BadInputError(
                f"the embedded engine does not do {reason}",
                hint="leave --engine at auto, or set it to spark",
            )
        if self._job.spec.engine == "auto":
            self._job.notify(f"taking Spark: the embedded engine does not do {reason}")
        require_extra("spark", f"Spark (for {reason})" if reason else "Spark")
        from .spark.engine import spark_engine

        self._engine = self._stack.enter_context(spark_engine(self._job))
        return self._engine

    def do(self, work: Callable[[Engine], _T]) -> _T:
        """Do some work with the engine; with Spark, if the embedded one hands over."""
        if self._engine is None:
            from .embedded import EmbeddedEngine

            self._engine = EmbeddedEngine(self._job)
        try:
            return work(self._engine)
        except HandOverError as reason:
            return work(self.hand_over(str(reason)))
