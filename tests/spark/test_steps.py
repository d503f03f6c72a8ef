"""What the job tells of its work: its steps, by the names that Spark's page has for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import Invariant
from snapkafka.testing import Broker
from tests.spark.engines import Engine, looked_at
from tests.spark.scene import play
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

FEW = Invariant(name="few", sql='SELECT * FROM messages WHERE "offset" > 1000')
#: Of a snapshot that no check doubts.
JOBS_MAX = 6
STEPS = ("reading every record", "table state")


def all_jobs(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_a_small_snapshot_takes_few_jobs_and_tells_of_each(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """Spark plans, compiles and schedules each, whatever its size. Its page has the same names."""
    stage, reported = play(kafka.bootstrap, f"m{id(spark)}"), list[str]()
    before, engine = all_jobs(spark), Engine("spark", spark, reported.append)
    with looked_at(stage, isolation="read_uncommitted", around=50) as (_, _, view, settings):
        engine.assembled(view, settings, LocalStore(tmp_path), wanted=(FEW,))
        jobs = all_jobs(spark) - before
    assert 0 < len(jobs) <= JOBS_MAX
    store = spark._jsc.sc().statusStore()
    assert {store.job(number).description().getOrElse(None) for number in jobs} == set(STEPS)
    steps = [f"{view.captured.id}: {name}" for name in STEPS]
    assert [line for line in reported if "offsets" not in line] == steps
