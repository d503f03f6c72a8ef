"""The choice of the engine: the embedded one for small snapshots, which hands over what it does not do to Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from snapkafka.checks import Checked, CheckOutcome, CutView
from snapkafka.checks.invariants import Invariant
from snapkafka.manifest import Manifest
from snapkafka.runtime.extras import missing_of, require_engine, require_extra
from snapkafka.store import Store

from .base import Base
from .both import Both, not_done
from .embedded.handover import HandOverError
from .pipeline import Engine, Job, Task
from .progress import Work
from .settings import Settings, Stored

if TYPE_CHECKING:
    from .embedded.engine import EmbeddedEngine
    from .spark.engine import SparkEngine

#: Up to so many offsets `auto` takes the embedded engine.
OFFSETS_MAX: Final = 200_000

_T = TypeVar("_T")


@contextmanager
def opened(job: Job, offsets: int, schemes: Collection[str]) -> Iterator[Engine]:
    """Provide the engine for the length of the block.

    Args:
        offsets: about how many one snapshot has to read.
        schemes: of the storages.

    Raises:
        BadInputError: the options name the embedded engine, and the job has a part that Spark alone does.
        DependencyMissingError: the engine is not installed.
    """
    require_engine(job.spec.engine)
    with ExitStack() as stack:
        engine = _Chosen(job, offsets, schemes, stack)
        needed = _needs_spark(job, offsets)
        if job.spec.engine == "spark" or needed:
            engine.hand_over(needed)
        if job.spec.engine == "both":
            yield Both(job, engine.embedded(), engine.spark())
        else:
            yield engine


def _needs_spark(job: Job, offsets: int) -> str:
    """Return the part of a job that Spark alone does; empty: there is none."""
    spec = job.spec
    if offsets > OFFSETS_MAX:
        return f"{offsets:,} offsets (at most {OFFSETS_MAX:,})"
    if spec.schema_registry:
        return "a schema registry"
    missing = missing_of("embedded")
    return f"anything without {missing[0]}" if missing else ""


class _Chosen:
    """The embedded engine until it hands over, and Spark from then on."""

    def __init__(self, job: Job, offsets: int, schemes: Collection[str], stack: ExitStack) -> None:
        self._job, self._offsets, self._schemes, self._stack = job, offsets, schemes, stack
        self._engine: Engine | None = None

    def hand_over(self, reason: str) -> Engine:
        """Use Spark from now on.

        Raises:
            BadInputError: the options name the embedded engine.
        """
        if self._job.spec.engine in ("embedded", "both"):
            raise not_done(reason)
        if self._job.spec.engine == "auto":
            self._job.notify(f"taking Spark: the embedded engine does not do {reason}")
        self._engine = self.spark(reason)
        return self._engine

    def spark(self, reason: str = "") -> SparkEngine:
        """Start Spark.

        Args:
            reason: the part of the job that only Spark does.
        """
        require_extra("spark", f"Spark (for {reason})" if reason else "Spark")
        from .spark.engine import spark_engine

        return self._stack.enter_context(spark_engine(self._job, self._offsets, self._schemes))

    def embedded(self) -> EmbeddedEngine:
        from .embedded.engine import EmbeddedEngine

        return EmbeddedEngine(self._job)

    def _done(self, work: Callable[[Engine], _T]) -> _T:
        if self._engine is None:
            self._engine = self.embedded()
        try:
            return work(self._engine)
        except HandOverError as reason:
            return work(self.hand_over(str(reason)))

    def require_valid(self, invariants: tuple[Invariant, ...]) -> None:
        """Refuse SQL that cannot be run."""
        self._done(lambda engine: engine.require_valid(invariants))

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Assemble a snapshot."""
        return self._done(lambda engine: engine.assemble(task, settings))

    def verify(
        self, view: CutView, settings: Settings, wanted: tuple[Invariant, ...], stored: Stored | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Verify a snapshot."""
        return self._done(lambda engine: engine.verify(view, settings, wanted, stored))

    def ask(
        self, store: Store, manifest: Manifest, base: Base | None, asked: tuple[Invariant, ...]
    ) -> list[CheckOutcome]:
        """Evaluate predicates."""
        return self._done(lambda engine: engine.ask(store, manifest, base, asked))
