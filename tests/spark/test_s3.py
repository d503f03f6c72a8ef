"""Snapshots in object storage, on a real S3 server: made, read by others, asked, verified, removed."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pytest
from obstore.fsspec import FsspecStore

from snapkafka.assembly import main
from snapkafka.manifest import Manifest
from snapkafka.store import Store, open_store
from snapkafka.testing import Broker
from tests.servers.s3 import EmbeddedS3
from tests.spark.at_hand import spec_file
from tests.spark.engines import Engine, state_of
from tests.spark.scene import Stage, play, play_on


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


def test_the_whole_state_of_a_chain(made: Made, tmp_path: Path) -> None:
    """And a verifier finds its tables there."""
    assert [made.manifest(which).verdict for which in ("snap", "next")] == ["VERIFIED", "VERIFIED"]
    full, whole = (dict(state_of(made.store, made.manifest(which))) for which in ("snap", "next"))
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
