"""Snapshots in object storage, on a real S3 server: made, read by others, asked, verified, removed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pytest
from obstore.fsspec import FsspecStore

from snapkafka.assembly import main
from snapkafka.assembly.entry import CHILD
from snapkafka.manifest import Manifest
from snapkafka.ops.assembling import JOB
from snapkafka.store import Store, manifest_name, open_store, state_parts, state_sql
from snapkafka.store import store as stores
from snapkafka.testing import Broker, wait_until
from tests.servers.s3 import EmbeddedS3
from tests.spark.at_hand import spec_file
from tests.spark.engines import Engine
from tests.spark.scene import Stage, play, play_on
from tests.worlds.throttling import Throttle

#: So few that a job may be met in the midst of writing.
SLOW: Final = 8


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[EmbeddedS3]:
    """For this process, and for the tasks of its session."""
    environment = {} if engine.session is None else engine.session.sparkContext.environment
    with EmbeddedS3() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environ.items():
            patch.setenv(name, value)
            patch.setitem(environment, name, value)
        yield running


@dataclasses.dataclass
class Made:
    """A full snapshot and one that builds on it, in a bucket."""

    stage: Stage
    store: Store
    engine: str

    def manifest(self, which: str) -> Manifest:
        return self.store.read(self.stage.name(which))

    def job(self, *which: str) -> list[str]:
        return [*self.stage.job(self.store.uri, *which), "--engine", self.engine]


@pytest.fixture(scope="module")
def made(server: EmbeddedS3, engine: Engine, kafka: Broker) -> Made:
    stage = play(kafka.bootstrap, f"s3{os.getpid()}{engine.name}")
    made = Made(stage, open_store(f"{server.make_bucket('lake')}/of/snapshots"), engine.name)
    play_on(stage, "next", (b'"new"', b"7"))
    assert main(made.job("snap", "next")) == 0
    return made


def rows(store: Store, manifest: Manifest) -> list[tuple[Any, ...]]:
    """The whole state, as DuckDB reads it by our own query."""
    with duckdb.connect() as database:
        if store.filesystem is not None:
            database.register_filesystem(store.filesystem)
        sql = state_sql(store, state_parts(store, manifest))
        return list(database.sql(f"SELECT key, value FROM ({sql})").fetchall())


def test_the_whole_state_of_a_chain(made: Made, tmp_path: Path) -> None:
    """And a verifier finds its tables there."""
    assert [made.manifest(which).verdict for which in ("snap", "next")] == ["VERIFIED", "VERIFIED"]
    full, whole = (dict(rows(made.store, made.manifest(which))) for which in ("snap", "next"))
    assert whole == full | {"new": "7", "late": "3", "red": "1", "x": "999"}
    places = (made.store.manifest_place(made.stage.name("next")),)
    again = spec_file(tmp_path, bootstrap=made.stage.bootstrap, manifests=places, tables=True)
    assert main([*again, "--engine", made.engine]) == 0


def test_duckdb_and_pandas_read_it_without_us(made: Made) -> None:
    """By the manifest alone, as the docs say."""
    place = made.store.manifest_place(made.stage.name("snap"))
    s3 = FsspecStore("s3a", client_options={"allow_http": True})
    reported = json.loads(s3.cat_file(place))
    (state,) = (table for table in reported["tables"] if table["name"] == "state")
    paths = [f"{place.rpartition('/')[0]}/{file['path']}" for file in state["files"]]
    read = [pd.read_parquet(s3.open(path)) for path in paths]
    assert sorted(pd.concat(read)["key"]) == ["late", "old", "poison", "x"]
    with duckdb.connect() as database:
        database.register_filesystem(s3)
        (by_duckdb,) = database.execute("SELECT count(*) FROM read_parquet(?)", [paths]).fetchall()[0]
    assert by_duckdb == state["rows"] > 0


def test_no_secret_is_written_down(made: Made, server: EmbeddedS3) -> None:
    texts = made.store.texts()
    assert len(texts) == 2, "a manifest each"
    assert server.secret not in "".join(texts.values())


def keys(store: Store) -> list[str]:
    """Everything below its place."""
    return [info.path for info in store.files.list("")]


def test_what_is_removed_leaves_nothing(made: Made, server: EmbeddedS3) -> None:
    store = open_store(f"{server.make_bucket('short-lived')}/of/snapshots")
    short = dataclasses.replace(made, store=store)
    assert main(short.job("snap")) == 0
    store.remove(short.manifest("snap"))
    assert keys(store) == []


@pytest.mark.nightly
def test_a_job_that_was_killed_half_way_leaves_no_manifest_and_the_next_one_completes(
    made: Made, server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(f"{server.make_bucket('killed')}/of/snapshots")
    again = dataclasses.replace(made, store=store)
    with Throttle(server.endpoint, per_second=SLOW) as slow:
        job = subprocess.Popen(
            # As a child, so that it is the job itself that is killed.
            [*JOB, CHILD, *again.job("snap")],
            env={**os.environ, "AWS_ENDPOINT_URL": slow.endpoint},
            start_new_session=True,
        )
        try:
            wait_until(
                "a table to be begun", lambda: any("/run-" in key for key in keys(store)), timeout_s=120
            )
            assert job.poll() is None
        finally:
            os.killpg(job.pid, signal.SIGKILL)  # and the JVM of its Spark
            job.wait()
    left = keys(store)
    print(f"left: {left}")
    assert store.text(manifest_name(made.stage.name("snap"))) is None
    monkeypatch.setattr(stores, "LEFTOVER_AFTER_S", 0.0)
    assert main(again.job("snap")) == 0
    manifest = again.manifest("snap")
    assert manifest.content == made.manifest("snap").content
    there = keys(store)
    assert not set(left) & set(there), "what the dead one wrote is gone"
    assert len(there) == 1 + sum(len(table.files) for table in manifest.tables)
