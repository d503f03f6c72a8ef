"""Both engines for one verification: each is a witness for the other, and a difference is an error of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from snapkafka.assembly import Job, Settings, compare, invariants
from snapkafka.assembly.embedded.engine import EmbeddedEngine
from snapkafka.assembly.spark.engine import SparkEngine
from snapkafka.checks import Checked, CheckOutcome, CutView, Invariant, Status


def verified_by_both(
    spark: SparkSession,
    job: Job,
    view: CutView,
    settings: Settings,
    folder: Path,
    wanted: Sequence[Invariant] = (),
    stored: invariants.Tables | None = None,
) -> Checked:
    """Verify, and require the same findings and the same rows."""
    found = []
    for name, engine in (("embedded", EmbeddedEngine(job)), ("spark", SparkEngine(spark, job))):
        (there := folder / name).mkdir(parents=True)
        checked, _ = engine.verify(view, settings, there)
        tables = invariants.in_folder(there)
        more = invariants.check(wanted, tables)
        if stored is not None:
            more.append(compare(stored, tables, checked.outcomes))
        found.append((tables, checked._replace(outcomes=[*checked.outcomes, *more])))
    (here, one), (others, other) = found
    assert one == other
    differ: CheckOutcome = replace(compare(here, others, ()), check="the same rows")
    assert differ.status is Status.PASSED, differ
    assert here.queries.keys() == others.queries.keys()
    return one
