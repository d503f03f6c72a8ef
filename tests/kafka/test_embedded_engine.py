"""`snapkafka assemble --engine embedded`: from a captured snapshot to a verdict, without Spark and without Java."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from snapkafka import ops
from snapkafka.assembly import JobSpec, as_file, changed, invariants, main
from snapkafka.errors import LedgerUnusableError, OffsetsGoneError
from snapkafka.kafka import Connection, KafkaTopicAdmin, find_captured
from snapkafka.manifest import Manifest
from snapkafka.protocol import Captured
from snapkafka.store import Store, open_store, state_parts, state_sql
from snapkafka.testing import Broker
from tests.installed import write_sitecustomize
from tests.kafka.waiting import until
from tests.servers.s3 import EmbeddedS3
from tests.spark.scene import Stage, play, play_on


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    return play(kafka.bootstrap, f"embedded{os.getpid()}", calm=True)


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of `pip install 'snapkafka[cli,embedded]'` on a machine without Java."""
    write_sitecustomize(tmp_path / "stub", "cli", "embedded")
    (tmp_path / "empty").mkdir()
    return {
        "PATH": str(tmp_path / "empty"),
        "PYTHONPATH": str(tmp_path / "stub"),
        "HOME": str(tmp_path / "empty"),
    }


def command(environ: dict[str, str], stage: Stage, *arguments: str) -> tuple[int, Any, str]:
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka", *arguments, *where],
        capture_output=True,
        text=True,
        timeout=120,
        env=environ,
        cwd=Path(__file__).parents[2],
    )
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("engine", [("--engine", "embedded"), ()])
def test_a_small_snapshot_needs_neither_spark_nor_java(
    stage: Stage, bare: dict[str, str], tmp_path: Path, engine: tuple[str, ...]
) -> None:
    name, storage = f"{stage.namespace}-snap", tmp_path / "snaps"
    (tmp_path / "none.sql").write_text('SELECT * FROM messages WHERE "offset" < ${least}')
    status, found, err = command(
        bare, stage, "assemble", name, "--storage", str(storage), *engine,
        "--invariants", str(tmp_path / "none.sql"), "--set", "least=0",
    )  # fmt: skip
    assert status == 0, err
    (result,) = found["snapshots"]
    assert result["verdict"].startswith("VERIFIED")
    assert {check["name"] for check in result["checks"] if check["run"]} >= {
        "V1",
        "V2",
        "V3",
        "V4",
        "V6 none",
    }
    manifest = json.loads((storage / f"{name}.json").read_text())
    assert set(manifest["versions"]) == {"snapkafka", "python", "pyarrow", "duckdb", "confluent-kafka"}
    for table in manifest["tables"]:
        files = f"{storage}/{table['path']}/*.parquet"
        ((rows,),) = duckdb.sql(f"SELECT count(*) FROM '{files}'").fetchall()
        assert rows == table["rows"], table["name"]
    examined = asyncio.run(ops.verify_offline(name, storage=str(storage)))
    assert examined.damage == ()
    state = asyncio.run(ops.read_ledger(Connection(bootstrap=stage.bootstrap), stage.namespace)).state
    verdict = state.snapshots[stage.epoch].verdict
    assert verdict is not None
    assert verdict.digest == manifest["content"]


def test_a_chain_in_object_storage_is_assembled_and_verified_with_its_tables(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = play(kafka.bootstrap, f"objects{os.getpid()}")
    play_on(stage, f"{stage.namespace}-next", parent=f"{stage.namespace}-snap", written=[(b'"new"', b"7")])
    with EmbeddedS3() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        store = open_store(f"{server.make_bucket('lake')}/of/snapshots")
        names = tuple(f"{stage.namespace}-{which}" for which in ("snap", "next"))
        spec = JobSpec(
            bootstrap=stage.bootstrap,
            namespace=stage.namespace,
            snapshots=names,
            storage=store.uri,
            engine="embedded",
        )
        (tmp_path / "spec.json").write_bytes(as_file(spec))
        assert main(["--spec", str(tmp_path / "spec.json")]) == 0
        again = changed(
            spec, snapshots=(), storage="", tables=True, manifests=[store.manifest_place(names[1])]
        )
        (tmp_path / "again.json").write_bytes(as_file(again))
        assert main(["--spec", str(tmp_path / "again.json")]) == 0
        full, whole = (dict(rows_of(store, store.read(name))) for name in names)
        assert whole == full | {"new": "7", "late": "3", "red": "1", "x": "999"}


def rows_of(store: Store, manifest: Manifest) -> list[tuple[Any, ...]]:
    """The whole state, as DuckDB reads it."""
    with duckdb.connect() as database:
        database.register_filesystem(store.filesystem)
        sql = state_sql(store, state_parts(store, manifest))
        return list(database.sql(f"SELECT key, value FROM ({sql})").fetchall())


def test_a_topic_that_is_recreated_while_it_is_read_leaves_no_manifest(
    kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both engines ask by the same function once they have read, before they write the manifest."""
    stage = play(kafka.bootstrap, f"recreated{os.getpid()}", calm=True)
    name, connection = f"{stage.namespace}-snap", Connection(bootstrap=stage.bootstrap)
    captured = asyncio.run(read_captured(connection, name))
    topic, check, recreated = captured.inputs[0].topic, invariants.check, list[str]()

    def recreate_and_check(*arguments: Any) -> Any:
        recreated.append(asyncio.run(recreate(connection, topic)))
        return check(*arguments)

    monkeypatch.setattr(invariants, "check", recreate_and_check)
    spec = JobSpec(
        bootstrap=stage.bootstrap,
        namespace=stage.namespace,
        snapshots=(name,),
        storage=str(tmp_path / "snaps"),
        engine="embedded",
    )
    (tmp_path / "spec.json").write_bytes(as_file(spec))
    status = main(["--spec", str(tmp_path / "spec.json")])
    assert recreated == [topic]
    assert status == OffsetsGoneError.exit_status
    assert not (tmp_path / "snaps" / f"{name}.json").exists()


async def read_captured(connection: Connection, name: str) -> Captured:
    return find_captured((await ops.read_ledger(connection, name.removesuffix("-snap"))).state, name)


async def recreate(connection: Connection, topic: str) -> str:
    admin = KafkaTopicAdmin(connection)
    try:
        known = (await admin.describe_topics([topic]))[topic]
        await admin.delete_topics(topic)

        async def made() -> bool:
            try:
                await admin.create_topic(topic, partitions=known.partitions)
            except LedgerUnusableError:  # it is still being deleted
                return False
            return (await admin.describe_topics([topic]))[topic].topic_id != known.topic_id

        await until(made)
        return topic
    finally:
        await admin.close()
