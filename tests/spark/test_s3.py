"""Snapshots in object storage, on a real S3 server: made, read by others, asked, verified, removed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import duckdb
import fsspec
import pandas as pd  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import main
from snapkafka.assembly.spark.entry import CHILD
from snapkafka.assembly.spark.write import s3_commit
from snapkafka.manifest import Manifest
from snapkafka.ops.assembling import JOB
from snapkafka.store import Store, manifest_name, objects, open_store, state_parts, state_sql
from snapkafka.testing import Broker, wait_until
from tests.servers.s3 import EmbeddedS3
from tests.spark.scene import Stage, play, play_on
from tests.worlds.throttling import Throttle

pytestmark = pytest.mark.nightly

#: So few that a job may be met in the midst of writing.
SLOW: Final = 8


@pytest.fixture(scope="module")
def server(spark: SparkSession) -> Iterator[EmbeddedS3]:
    """For this process, and for its JVM, which reads the environment of its own start alone."""
    with EmbeddedS3() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environ.items():
            patch.setenv(name, value)
        jvm = spark.sparkContext._jvm.java.lang.System
        jvm.setProperty("aws.accessKeyId", running.user)
        jvm.setProperty("aws.secretAccessKey", running.secret)
        yield running
        jvm.clearProperty("aws.accessKeyId")
        jvm.clearProperty("aws.secretAccessKey")


@dataclasses.dataclass
class Made:
    """A full snapshot and one that builds on it, in a bucket."""

    stage: Stage
    store: Store

    def name(self, which: str) -> str:
        return f"{self.stage.namespace}-{which}"

    def manifest(self, which: str) -> Manifest:
        return self.store.read(self.name(which))

    def assemble(self, *which: str) -> int:
        where = ["--bootstrap", self.stage.bootstrap, "--namespace", self.stage.namespace]
        names = [part for one in which for part in ("--snapshot", self.name(one))]
        return main([*where, *names, "--storage", self.store.uri])


@pytest.fixture(scope="module")
def made(server: EmbeddedS3, kafka: Broker) -> Made:
    storage = f"{server.make_bucket('lake')}/of/snapshots"
    made = Made(play(kafka.bootstrap, f"s3{os.getpid()}"), open_store(storage))
    play_on(made.stage, made.name("next"), parent=made.name("snap"), written=[(b'"new"', b"7")])
    assert made.assemble("snap", "next") == 0
    return made


def rows(store: Store, manifest: Manifest) -> list[tuple[Any, ...]]:
    """The whole state, as DuckDB reads it by our own query."""
    with duckdb.connect() as database:
        if store.filesystem is not None:
            database.register_filesystem(store.filesystem)
        sql = state_sql(store, state_parts(store, manifest))
        return list(database.sql(f"SELECT key, value FROM ({sql})").fetchall())


def test_the_whole_state_of_a_chain(made: Made) -> None:
    assert [made.manifest(which).verdict for which in ("snap", "next")] == ["VERIFIED", "VERIFIED"]
    full, whole = (dict(rows(made.store, made.manifest(which))) for which in ("snap", "next"))
    assert whole == full | {"new": "7", "late": "3", "red": "1", "x": "999"}


def test_duckdb_pandas_and_spark_read_it_without_us(made: Made, spark: SparkSession) -> None:
    """By the manifest alone, as the docs say."""
    place = made.store.manifest_place(made.name("snap"))
    with fsspec.open(place) as file:
        reported = json.load(file)
    (state,) = (table for table in reported["tables"] if table["name"] == "state")
    paths = [f"{place.rpartition('/')[0]}/{file['path']}" for file in state["files"]]
    assert sorted(pd.concat(map(pd.read_parquet, paths))["key"]) == ["late", "old", "poison", "x"]
    with duckdb.connect() as database:
        database.register_filesystem(fsspec.filesystem("s3a"))
        (by_duckdb,) = database.execute("SELECT count(*) FROM read_parquet(?)", [paths]).fetchall()[0]
    with s3_commit.reached(spark, made.store):
        by_spark = spark.read.parquet(*paths).count()
    assert by_duckdb == by_spark == state["rows"] > 0


def test_no_secret_is_written_down(made: Made, server: EmbeddedS3) -> None:
    texts = made.store.texts()
    assert len(texts) == 2, "a manifest each"
    assert server.secret not in "".join(texts.values())


def keys(store: Store) -> list[str]:
    """Everything below its place, and what only looks like a folder."""
    assert store.filesystem is not None
    bucket, _, prefix = store.uri.partition("://")[2].partition("/")
    page = store.filesystem.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{prefix}/")
    assert not page["IsTruncated"]
    return [item["Key"].removeprefix(f"{prefix}/") for item in page.get("Contents", ())]


def test_what_is_removed_leaves_nothing(made: Made, server: EmbeddedS3) -> None:
    """Hadoop's S3A makes empty objects where it made folders."""
    store = open_store(f"{server.make_bucket('short-lived')}/of/snapshots")
    short = dataclasses.replace(made, store=store)
    assert short.assemble("snap") == 0
    assert [key for key in keys(store) if key.endswith("/")], "nothing to be seen here"
    store.remove(short.manifest("snap"))
    assert keys(store) == []


def test_a_job_that_was_killed_half_way_leaves_no_manifest_and_the_next_one_completes(
    made: Made, server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"{server.make_bucket('killed')}/of/snapshots")
    again = dataclasses.replace(made, store=store)
    where = ["--bootstrap", made.stage.bootstrap, "--namespace", made.stage.namespace, "--storage", store.uri]
    with Throttle(server.endpoint, per_second=SLOW) as slow:
        job = subprocess.Popen(
            # As a child, so that it is the job itself that is killed.
            [*JOB, CHILD, *where, "--snapshot", made.name("snap")],
            env={**os.environ, "AWS_ENDPOINT_URL": slow.endpoint},
            start_new_session=True,
        )
        try:
            wait_until("a table to be begun", lambda: any(map(_of_a_table, keys(store))), timeout_s=120)
            assert job.poll() is None
        finally:
            os.killpg(job.pid, signal.SIGKILL)  # and the JVM of its Spark
            job.wait()
    left = keys(store)
    print(f"left: {left}")
    assert store.text(manifest_name(made.name("snap"))) is None
    monkeypatch.setattr(objects, "LEFTOVER_AFTER_S", 0.0)
    assert again.assemble("snap") == 0
    manifest = again.manifest("snap")
    assert manifest.content == made.manifest("snap").content
    there = [key for key in keys(store) if not key.endswith("/")]
    assert not set(left) & set(there), "what the dead one wrote is gone"
    assert len(there) == 1 + sum(len(table.files) for table in manifest.tables)


def _of_a_table(key: str) -> bool:
    return "/run-" in key and not key.endswith("/")


def test_each_task_begins_at_a_time_of_its_own(spark: SparkSession) -> None:
    """It waits before its first row, and never again; and no row is lost."""
    now_ns = fn.reflect(fn.lit("java.lang.System"), fn.lit("nanoTime")).cast("bigint")
    rows = s3_commit.spread(spark.range(0, 400, 1, 8).withColumn("before", now_ns)).withColumn(
        "after", now_ns
    )
    waited_ms = ((fn.col("after") - fn.col("before")) / 1e6).alias("waited_ms")
    of_tasks: dict[int, list[float]] = {}
    for task, waited in rows.select(fn.spark_partition_id(), waited_ms).collect():
        of_tasks.setdefault(task, []).append(waited)
    assert [len(waits) for waits in of_tasks.values()] == [50] * 8
    firsts = {round(waits[0], 1) for waits in of_tasks.values()}
    assert len(firsts) > 4, firsts
    assert 50 < max(firsts) < 5_000
    assert sorted(wait for waits in of_tasks.values() for wait in waits[1:])[300] < 1
