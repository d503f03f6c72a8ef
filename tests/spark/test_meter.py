"""What the job tells of its work: steps by the names that Spark's page has for them, and counts that are true."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from snapkafka.assembly import Invariant, Working
from snapkafka.assembly.spark import meter
from snapkafka.assembly.spark.meter import Meter, step
from snapkafka.testing import Broker
from tests.spark.engines import Engine, looked_at
from tests.spark.scene import play
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

FEW = Invariant(name="few", sql='SELECT * FROM messages WHERE "offset" > 1000')
#: Of a snapshot that no check doubts.
JOBS_MAX = 6
NAMES = {"reading every record", "table state"}


def all_jobs(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def test_a_small_snapshot_takes_few_jobs_and_tells_of_each(
    spark: SparkSession, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark plans, compiles and schedules each, whatever its size. Its page has the same names."""
    stage, reported = play(kafka.bootstrap, f"m{id(spark)}"), list[Working]()
    monkeypatch.setattr(meter, "EVERY_S", 0.01)
    before, engine = all_jobs(spark), Engine("spark", spark, reported.append)
    with looked_at(stage, isolation="read_uncommitted", around=50) as (_, _, view, settings):
        manifest, work = engine.assembled(view, settings, LocalStore(tmp_path), wanted=(FEW,))
        jobs = all_jobs(spark) - before
        verified = engine.of(settings).verify(view, settings, None)[1](manifest)
    assert 0 < len(jobs) <= JOBS_MAX
    tracker, store = spark.sparkContext.statusTracker(), spark._jsc.sc().statusStore()
    stages = {
        info.name
        for number in jobs
        for stage_id in tracker.getJobInfo(number).stageIds
        if (info := tracker.getStageInfo(stage_id)) is not None
    }
    assert stages == {store.job(number).description().getOrElse(None) for number in jobs} == NAMES
    running = {item for it in reported for item in it.steps}
    assert running and {item.name for item in running} <= NAMES
    assert all(0 <= item.done <= item.tasks for item in running)
    assert reported[-1].steps == (), "in the end nothing runs"

    files = [file for table in manifest.tables for file in table.files]
    assert work.offsets_read == verified.offsets_read == sum(it.end - it.start for it in manifest.read) > 20
    assert (work.tables_written, verified.tables_written) == (6, 0)
    assert work.rows_written == sum(file.rows for file in files)
    assert work.bytes_written == sum(file.stat().st_size for file in tmp_path.rglob("*.parquet"))
    assert work.checks == ("V1", "V2", "V3", "V4", "V5", "V6 few")


def test_outside_of_a_step_names_are_as_they_were(spark: SparkSession) -> None:
    context = spark.sparkContext
    with step(spark, "outer"):
        with pytest.raises(ValueError, match="fails"), step(spark, "inner"):
            raise ValueError("fails")
        assert context.getLocalProperty("callSite.short") == "outer"
    assert [context.getLocalProperty(name) for name in meter.NAMES] == [None, None]


def test_where_spark_has_died_its_own_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(self: Meter) -> Any:
        raise Py4JError("no answer from the JVM")

    monkeypatch.setattr(Meter, "_steps", no_answer)
    monkeypatch.setattr(meter, "EVERY_S", 0)
    nothing: Any = None
    dead = Meter(nothing, "s", lambda working: None)

    def run() -> None:
        with dead.reading():
            dead._watch()
            raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        run()
