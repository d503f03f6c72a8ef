"""The choice of the engine: Spark, or the embedded one for small snapshots, which hands over what it does not do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from snapkafka.checks import Checked, CheckOutcome, CutView
from snapkafka.checks.invariants import Invariant
from snapkafka.errors import BadInputError, Option
from snapkafka.manifest import Manifest
from snapkafka.runtime.extras import missing_of, require_extra
from snapkafka.store import Store

from .base import Base
from .embedded.handover import HandOverError
from .pipeline import Engine, Job, Task
from .progress import Work
from .settings import Settings, Stored

#: Up to so many offsets `auto` takes the embedded engine.
OFFSETS_MAX: Final = 100_000


@contextmanager
def opened(job: Job, offsets: int, schemes: Collection[str], only_spark: str) -> Iterator[Engine]:
    """Provide the engine for the length of the block.

    Args:
        offsets: about how many one snapshot has to read.
        schemes: of the storages.
        only_spark: the part of the job that Spark alone does; empty: there is none.

    Raises:
        BadInputError: the options name the embedded engine, and the job has such a part.
        DependencyMissingError: the engine is not installed.
    """
    with ExitStack() as stack:
        engine = _Chosen(job, offsets, schemes, stack)
        if job.spec.engine == "embedded":
            require_extra("embedded", "the embedded engine")
        if job.spec.engine == "spark" or _needs_spark(job, offsets, schemes, only_spark):
            engine.hand_over(_needs_spark(job, offsets, schemes, only_spark))
        yield engine


def _needs_spark(job: Job, offsets: int, schemes: Collection[str], only_spark: str) -> str:
    """Return the part of a job that Spark alone does; empty: there is none."""
    spec, others = job.spec, sorted({*schemes} - {"file"})
    if only_spark:
        return only_spark
    if others:
        return f"storage by {others[0]}"
    if offsets > OFFSETS_MAX:
        return f"{offsets:,} offsets (at most {OFFSETS_MAX:,})"
    if spec.avro or spec.schema_registry:
        return "Avro"
    if spec.codecs or spec.unpickle:
        return "codecs of the apps"
    missing = missing_of("embedded")
    return f"it without {missing[0]}" if missing else ""


class _Chosen:
    """The embedded engine until it hands over, and Spark from then on."""

    def __init__(self, job: Job, offsets: int, schemes: Collection[str], stack: ExitStack) -> None:
        self._job, self._offsets, self._schemes, self._stack = job, offsets, schemes, stack
        self._engine: Engine | None = None

    def hand_over(self, reason: str) -> Engine:
        """Take Spark from now on.

        Raises:
            BadInputError: the options name the embedded engine.
        """
        if self._job.spec.engine == "embedded":
            raise BadInputError(
                f"the embedded engine does not do {reason}",
                hint=("leave ", Option("engine"), " to auto, or take spark"),
            )
        if self._job.spec.engine == "auto":
            self._job.notify(f"taking Spark: the embedded engine does not do {reason}")
        require_extra("spark", "assembly")
        from .spark.engine import spark_engine

        self._engine = self._stack.enter_context(spark_engine(self._job, self._offsets, self._schemes))
        return self._engine

    def _here(self) -> Engine:
        if self._engine is None:
            from .embedded.engine import EmbeddedEngine

            self._engine = EmbeddedEngine(self._job)
        return self._engine

    def require_valid(self, invariants: tuple[Invariant, ...]) -> None:
        """Refuse SQL that cannot be run."""
        try:
            self._here().require_valid(invariants)
        except HandOverError as reason:
            self.hand_over(str(reason)).require_valid(invariants)

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Assemble a snapshot."""
        try:
            return self._here().assemble(task, settings)
        except HandOverError as reason:
            return self.hand_over(str(reason)).assemble(task, settings)

    def verify(
        self, view: CutView, settings: Settings, wanted: tuple[Invariant, ...], stored: Stored | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Verify a snapshot."""
        return self._here().verify(view, settings, wanted, stored)

    def ask(
        self, store: Store, manifest: Manifest, base: Base | None, asked: tuple[Invariant, ...]
    ) -> list[CheckOutcome]:
        """Evaluate predicates."""
        try:
            return self._here().ask(store, manifest, base, asked)
        except HandOverError as reason:
            return self.hand_over(str(reason)).ask(store, manifest, base, asked)
