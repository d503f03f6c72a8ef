"""What the job tells of its work: steps by the names that Spark's page has for them, and counts that are true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from snapkafka.assembly import Desk, Invariant, Work, Working
from snapkafka.assembly.spark.reading import meter
from snapkafka.assembly.spark.reading.meter import Meter, step
from snapkafka.kafka import Connection
from snapkafka.manifest import Manifest
from snapkafka.testing import Broker
from tests.spark.engines import Engine
from tests.spark.reading import settings_of
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

FEW = Invariant(name="few", sql='SELECT * FROM messages WHERE "offset" > 1000')
#: Of a snapshot that no check doubts.
JOBS_MAX = 18
NAMES = {
    *(f"table {name}" for name in ("state", "messages", "around")),
    "V1 to V5: every record",
}


@dataclass
class Done:
    stage: Stage
    manifest: Manifest
    folder: Path
    work: Work
    verified: Work
    reported: list[Working]
    jobs: set[int]


def all_jobs(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


@pytest.fixture(scope="module")
def done(spark: SparkSession, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """A snapshot, assembled and verified again."""
    stage, folder, reported = (
        play(kafka.bootstrap, f"m{id(spark)}"),
        tmp_path_factory.mktemp("snaps"),
        list[Working](),
    )
    with (
        pytest.MonkeyPatch.context() as patch,
        Desk(Connection(bootstrap=kafka.bootstrap), stage.namespace) as desk,
    ):
        patch.setattr(meter, "EVERY_S", 0.01)
        captured = desk.captured(f"{stage.namespace}-snap")
        view = desk.look(captured, "read_uncommitted")
        settings = settings_of(
            desk.ledger(captured), bootstrap=kafka.bootstrap, around=50, namespace=stage.namespace
        )
        before, engine = all_jobs(spark), Engine("spark", spark, reported.append)
        manifest, work = engine.assembled(view, settings, LocalStore(folder), wanted=(FEW,))
        jobs = all_jobs(spark) - before
        _, work_of = engine.of(settings).verify(view, settings, None)
        yield Done(stage, manifest, folder, work, work_of(manifest), reported, jobs)


def test_every_stage_has_the_name_of_its_step(spark: SparkSession, done: Done) -> None:
    """As Spark's page shows them, and what that says of the jobs."""
    tracker, store = spark.sparkContext.statusTracker(), spark._jsc.sc().statusStore()
    stages, descriptions = set(), set()
    for number in done.jobs:
        found = tracker.getJobInfo(number)
        assert found is not None
        stages |= {info.name for stage in found.stageIds if (info := tracker.getStageInfo(stage)) is not None}
        descriptions.add(store.job(number).description().getOrElse(None))
    assert stages == NAMES
    assert descriptions == NAMES


def test_a_small_snapshot_takes_few_jobs(spark: SparkSession, done: Done) -> None:
    """Spark plans, compiles and schedules each, whatever its size; the user's invariants come on top."""
    store = spark._jsc.sc().statusStore()
    names = [store.job(number).description().getOrElse(None) for number in done.jobs]
    ours = Counter(name for name in names if not name.startswith("V6"))
    assert ours.total() <= JOBS_MAX, ours


def test_outside_of_a_step_names_are_as_they_were(spark: SparkSession) -> None:
    context = spark.sparkContext
    with step(spark, "outer"):
        with pytest.raises(ValueError, match="fails"), step(spark, "inner"):
            raise ValueError("fails")
        assert context.getLocalProperty("callSite.short") == "outer"
    assert [context.getLocalProperty(name) for name in meter.NAMES] == [None, None]


def test_offsets_read_are_those_of_the_manifest(done: Done) -> None:
    offsets = sum(item.end - item.start for item in done.manifest.read)
    assert offsets > 20
    assert done.work.offsets_read == done.verified.offsets_read == offsets


def test_rows_and_bytes_written_are_those_of_the_files(done: Done) -> None:
    files = list(done.folder.rglob("*.parquet"))
    assert done.work.tables_written == 6
    assert done.work.rows_written == sum(pq.ParquetFile(file).metadata.num_rows for file in files)
    assert done.work.bytes_written == sum(file.stat().st_size for file in files)
    assert done.work.checks == ("V1", "V2", "V3", "V4", "V5", "V6 few")
    assert (done.verified.tables_written, done.verified.rows_written, done.verified.bytes_written) == (
        0,
        0,
        0,
    )


def test_meanwhile_it_reports_how_far_it_is(done: Done) -> None:
    assert done.reported
    assert done.reported[-1].steps == (), "in the end nothing runs"
    running = {item for reported in done.reported for item in reported.steps}
    assert running
    assert {item.name for item in running} <= NAMES
    assert all(0 <= item.done <= item.tasks for item in running)


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
