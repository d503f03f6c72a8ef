"""Both engines for one verification: each is a witness for the other, and a difference is an error of one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from snapkafka.checks import Checked, CheckOutcome, CutView
from snapkafka.checks.invariants import Invariant
from snapkafka.errors import BadInputError, InternalError, OffsetsGoneError, Option
from snapkafka.manifest import Manifest
from snapkafka.store import Store

from .base import Base
from .embedded.handover import HandOverError
from .pipeline import Engine, Job, Task
from .progress import Work
from .settings import Settings, Stored

if TYPE_CHECKING:
    from .embedded.engine import EmbeddedEngine
    from .spark.engine import SparkEngine

#: The result of the checks, and rows and digest of each table.
_Found: TypeAlias = tuple[Checked, dict[str, tuple[int, str]]]
#: So much of a value or a row is shown.
CHARS_MAX: Final = 200


class Both(Engine):
    """The embedded engine and Spark, which have to find the same."""

    def __init__(self, job: Job, embedded: EmbeddedEngine, spark: SparkEngine) -> None:
        self._job, self._embedded, self._spark = job, embedded, spark

    def require_valid(self, invariants: tuple[Invariant, ...]) -> None:
        """Refuse SQL that Spark cannot run; the embedded engine refuses with a reason of its own."""
        self._spark.require_valid(invariants)

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Assemble by neither: `JobSpec.require_one_engine` has refused that."""
        raise AssertionError("both engines verify, and one assembles")

    def verify(
        self, view: CutView, settings: Settings, wanted: tuple[Invariant, ...], stored: Stored | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Verify by each, and compare findings, and rows and digests of the tables that the log gives.

        Raises:
            InternalError: they differ; it names the first difference.
            OffsetsGoneError: the log has changed between them.
            BadInputError: the embedded engine does not do all of it.
        """
        name = view.captured.id
        by_embedded = self._by_embedded(view, settings, wanted, stored)
        there, work = self._spark.verify(view, settings, wanted, stored)
        others = self._spark.digests(view, settings)
        if what := self._difference(view, settings, by_embedded, (there, others)):
            if self._by_embedded(view, settings, wanted, stored) != by_embedded:
                raise OffsetsGoneError(
                    f"{name}: the log has changed since the embedded engine read it", hint="verify it again"
                )
            raise InternalError(
                f"{name}: the engines differ: {what}",
                hint=("report it; ", Option("engine", "spark"), " verifies without the comparison"),
            )
        rows_count = sum(count for count, _ in others.values())
        self._job.notify(
            f"{name}: both engines agree on {len(there.outcomes)} checks and {rows_count:,} rows in"
            f" {len(others)} tables"
        )
        return there, work

    def _by_embedded(
        self, view: CutView, settings: Settings, wanted: tuple[Invariant, ...], stored: Stored | None
    ) -> _Found:
        try:
            found, _ = self._embedded.verify(view, settings, wanted, stored)
            return found, self._embedded.digests(view, settings)
        except HandOverError as reason:
            raise not_done(str(reason)) from reason

    def _difference(self, view: CutView, settings: Settings, one: _Found, other: _Found) -> str:
        """Name the first difference of the embedded engine and of Spark; empty: there is none."""
        (here, digests), (there, others) = one, other
        for what in findings_that_differ(here, there):
            return what
        if sorted(digests) != sorted(others):
            return f"the embedded one has the tables {sorted(digests)}, and Spark {sorted(others)}"
        for table in (table for table in others if others[table] != digests[table]):
            rows = (engine.rows(view, settings, table) for engine in (self._embedded, self._spark))
            return row_that_differs(table, *rows)
        return ""

    def ask(
        self, store: Store, manifest: Manifest, base: Base | None, asked: tuple[Invariant, ...]
    ) -> list[CheckOutcome]:
        """Evaluate predicates in Spark."""
        return self._spark.ask(store, manifest, base, asked)


def not_done(reason: str) -> BadInputError:
    """Create the error for work that the embedded engine cannot do."""
    return BadInputError(
        f"the embedded engine does not do {reason}",
        hint=("leave ", Option("engine"), " to auto, or take spark"),
    )


def findings_that_differ(embedded: Checked, spark: Checked) -> Iterator[str]:
    """Yield each difference of two results of the checks, in words."""
    one, other = (_facts(checked) for checked in (embedded, spark))
    for what in sorted(one.keys() | other.keys()):
        if one.get(what) != other.get(what):
            here, there = map(_short, _first_apart(one.get(what), other.get(what)))
            yield f"{what} is {here} by the embedded one, and {there} by Spark"


def _first_apart(one: Any, other: Any) -> tuple[Any, Any]:
    """Return, of two sequences, the first items that differ, else both values."""
    if type(one) is type(other) is tuple:
        return next(pair for pair in zip_longest(one, other) if pair[0] != pair[1])
    return one, other


def _facts(checked: Checked) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        f"{outcome.check} {it.name}": getattr(outcome, it.name)
        for outcome in checked.outcomes
        for it in fields(outcome)
    }
    found |= {f"changelog {tp.topic}[{tp.partition}]": facts for tp, facts in checked.held.items()}
    return found | {"external records": checked.external, "outsiders": checked.outside}


def row_that_differs(table: str, embedded: list[str], spark: list[str]) -> str:
    """Name the first row that only one of two lists has."""
    here, there = ((rows, set(others)) for rows, others in ((embedded, spark), (spark, embedded)))
    for engine, (rows, others) in (("the embedded one", here), ("Spark", there)):
        for row in rows:
            if row not in others:
                return f"only {engine} has this row of {table}: {_short(row)}"
    return f"{table} has {len(embedded):,} rows by the embedded one, and {len(spark):,} by Spark"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..."
