"""Incremental snapshots on a real broker, by the command: a full one, and two that build on it."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from obstore.fsspec import FsspecStore

from snapkafka import ops
from snapkafka.assembly import invariants, main
from snapkafka.assembly.manifest import Task
from snapkafka.errors import EXIT_NOT_GOOD, InternalError, StorageError
from snapkafka.kafka import Connection
from snapkafka.manifest import AROUND, Manifest
from snapkafka.store import open_store
from snapkafka.testing import Broker
from tests.servers.s3 import EmbeddedS3
from tests.spark.at_hand import spec_file
from tests.spark.engines import Engine, state_of
from tests.spark.scene import Stage, play, play_on
from tests.worlds.on_disk import flip
from tests.worlds.stores import LocalStore

#: Hold only if the whole state is seen: what only the full snapshot has, and what only the deltas deleted.
INVARIANTS = {
    "kept": "SELECT 1 AS lost WHERE NOT EXISTS (SELECT * FROM state WHERE changelog_offset = 5)",
    "deleted": "SELECT * FROM state WHERE key = 'old'",
}


@dataclass
class Chain:
    stage: Stage
    store: LocalStore
    engine: Engine

    def manifest(self, which: str) -> Manifest:
        return self.store.read(self.stage.name(which))

    def arguments(self, *which: str) -> list[str]:
        return [*self.stage.job(self.store.root, *which), "--engine", self.engine.name]

    def verified(self, which: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Verify a snapshot and its stored tables."""
        paths = (str(self.store.manifest_path(self.stage.name(which))),)
        again = spec_file(folder, bootstrap=self.stage.bootstrap, manifests=paths, tables=True)
        capsys.readouterr()
        status = main([*again, "--engine", self.engine.name])
        (reported,) = json.loads(capsys.readouterr().out)["snapshots"]
        assert status == (0 if reported["verdict"] == "VERIFIED" else EXIT_NOT_GOOD)
        return {**reported, "checks": {check["name"]: check for check in reported["checks"]}}


def alter(store: LocalStore, snapshot: str, table: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Alter the rows of a table as somebody would who hides it: size and SHA-256 in the manifest are renewed."""
    path = store.manifest_path(snapshot)
    reported = json.loads(path.read_text())
    ((file,),) = (entry["files"] for entry in reported["tables"] if entry["name"] == table)
    place = store.root / file["path"]
    before = pq.ParquetFile(place).read()
    rows = [row | change(row) for row in before.to_pylist()]
    assert rows != before.to_pylist(), "nothing was altered"
    pq.write_table(pa.Table.from_pylist(rows, schema=before.schema), place)
    file |= {"bytes": place.stat().st_size, "sha256": hashlib.sha256(place.read_bytes()).hexdigest()}
    path.write_text(json.dumps(reported))


@pytest.fixture(scope="module")
def chain(engine: Engine, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The parent first, then both of the others in one run: the second builds on what comes out of it."""
    folder = tmp_path_factory.mktemp("chain")
    stage = play(kafka.bootstrap, f"i{os.getpid()}{engine.name}", split=True)
    made = Chain(stage, LocalStore(folder / "storage"), engine)
    for name, sql in INVARIANTS.items():
        (folder / f"{name}.sql").write_text(sql)
    assert main(made.arguments("snap")) == 0
    play_on(stage, "next", (b'"old"', None), (b'"new"', b"7"))
    play_on(stage, "last", (b'"new"', b"8"), parent="next")
    invariants = [part for name in INVARIANTS for part in ("--invariants", str(folder / f"{name}.sql"))]
    assert main([*made.arguments("last", "next"), *invariants]) == 0
    return made


def test_a_chain_on_a_real_broker_is_the_whole(chain: Chain, tmp_path: Path) -> None:
    """The same rows as a full assembly of the same snapshot, in every column; and it is verified."""
    elsewhere = LocalStore(tmp_path)
    full = chain.engine.assemble(chain.stage, elsewhere, "last", whole=True, around=60)
    last = chain.manifest("last")
    assert state_of(chain.store, last, "*") == state_of(elsewhere, full, "*")
    # A delta reads fewer effects of records about the cut (`around`).
    others = {table.name: table.digest for table in full.tables if table.name not in ("state", AROUND)}
    assert others.items() <= {table.name: table.digest for table in last.tables}.items()
    assert {check.name: check.status for check in last.checks} == {
        **{check.name: check.status for check in full.checks if check.name != "V6"},
        "V5": "not-run",  # no new record says which event it comes from
        "V6 kept": "passed",
        "V6 deleted": "passed",
    }


@pytest.mark.timeout(900)
def test_its_tables_are_compared_with_the_log(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the parents as well: an altered value of theirs is a value of the whole."""
    store = LocalStore(tmp_path)
    shutil.copytree(chain.store.root, tmp_path, dirs_exist_ok=True)
    copied = replace(chain, store=store)
    found = copied.verified("last", tmp_path.parent, capsys)
    assert (found["verdict"], found["checks"]["tables"]["status"]) == ("VERIFIED", "passed")

    snapshot = chain.stage.name("snap")
    alter(store, snapshot, "state", lambda row: {"value_raw": b"8"} if row["key"] == "poison" else {})
    found = copied.verified("last", tmp_path.parent, capsys)
    tables = found["checks"]["tables"]
    assert (found["verdict"], tables["status"], tables["found"]) == ("INCONSISTENT", "failed", 2)


def test_a_key_that_lies_in_two_partitions_is_named(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a good verdict; also by a child that does not write it in both again, and by whoever verifies them."""
    where = Connection(bootstrap=chain.stage.bootstrap), chain.stage.namespace
    for which in ("snap", "next"):
        of_all = (it for check in chain.manifest(which).checks for it in check.notes)
        (note,) = (it for it in of_all if it.kind == "state-split")
        views = asyncio.run(ops.read_ledger(*where)).state.snapshots.values()
        (verdict,) = (it.verdict for it in views if it.verdict and it.trigger.id == chain.stage.name(which))
        assert [it for check in verdict.checks for it in check.remarks] == [note.what], "the ledger has it"
        again = chain.verified(which, tmp_path, capsys)["checks"]["V3"]["notes"]
        assert [it["what"] for it in again if it["kind"] == "state-split"] == [note.what]


def test_on_a_broken_parent_nothing_is_built_and_the_whole_state_is_read(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same size, anywhere in the chain. What is assembled already stays: others may build on its rows."""
    copied = replace(chain, store=LocalStore(shutil.copytree(chain.store.root, tmp_path / "copy")))
    (file,) = (copied.store.root / chain.stage.name("snap")).glob("*/state/*.parquet")
    flip(file, -9)
    assert main(copied.arguments("last")) == StorageError.exit_status
    message = json.loads(capsys.readouterr().out)["error"]["message"]
    assert str(file.relative_to(copied.store.root)) in message

    copied.store.remove(copied.manifest("last"))
    assert main(copied.arguments("last")) == 0
    (reported,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert (reported["verdict"], reported["why_full"]) == ("VERIFIED", message)
    found = copied.manifest("last")
    assert (found.parents, [table.name for table in found.tables if "state" in table.name]) == ((), ["state"])
    assert state_of(copied.store, found) == state_of(chain.store, chain.manifest("last"))


def test_one_that_cannot_be_assembled_does_not_stop_the_others(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever happens to it; it is named, and its status is that of the job."""
    made = Task.__init__

    def strange(self: Task, **given: Any) -> None:
        if given["view"].captured.id == chain.stage.name("snap"):
            raise ZeroDivisionError("a strange record")
        made(self, **given)

    monkeypatch.setattr(Task, "__init__", strange)
    assert (
        main(replace(chain, store=LocalStore(tmp_path)).arguments("snap", "next"))
        == InternalError.exit_status
    )
    found = json.loads(capsys.readouterr().out)
    assert [item["id"] for item in found["failed"]] == [chain.stage.name("snap")]
    assert "a strange record" in found["failed"][0]["message"]
    (other,) = found["snapshots"]
    assert (other["snapshot_id"], other["verdict"]) == (chain.stage.name("next"), "VERIFIED")
    assert f"{chain.stage.name('snap')} is not assembled" in other["why_full"]


def test_where_a_parent_is_pruned_meanwhile_the_assembly_fails_by_name(
    chain: Chain, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing protects it: what is to build on it has no manifest yet. The next run reads the whole state."""
    copied = replace(chain, store=LocalStore(shutil.copytree(chain.store.root, tmp_path / "copy")))
    copied.store.remove(copied.manifest("last"))
    check = invariants.check

    def prune_then(*given: Any) -> Any:
        copied.store.remove(copied.manifest("next"))
        return check(*given)

    with monkeypatch.context() as patch:
        patch.setattr(invariants, "check", prune_then)
        assert main(copied.arguments("last")) == StorageError.exit_status
    assert chain.stage.name("next") in json.loads(capsys.readouterr().out)["error"]["message"]
    assert not copied.store.has(chain.stage.name("last"))
    assert main(copied.arguments("last")) == 0
    (reported,) = json.loads(capsys.readouterr().out)["snapshots"]
    assert chain.stage.name("next") in reported["why_full"]


def test_a_chain_in_a_bucket_is_that_chain(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by this process and the tasks of its session. A verifier finds its tables there; DuckDB and pandas read them
    by the manifest alone, as the docs say; and no secret is written down."""
    session, job = chain.engine.session, ["--engine", chain.engine.name]
    with EmbeddedS3() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
            monkeypatch.setitem({} if session is None else session.sparkContext.environment, name, value)
        store = open_store(f"{server.make_bucket('lake')}/of/snapshots")
        assert main([*chain.stage.job(store.uri, "snap", "next"), *job]) == 0
        for which in ("snap", "next"):
            place, expected = chain.stage.name(which), state_of(chain.store, chain.manifest(which))
            assert state_of(store, store.read(place)) == expected
        again = {"bootstrap": chain.stage.bootstrap, "manifests": (store.manifest_place(place),)}
        assert main([*spec_file(tmp_path, tables=True, **again), *job]) == 0

        s3 = FsspecStore("s3a", client_options={"allow_http": True}, skip_instance_cache=True)
        full = json.loads(s3.cat_file(store.manifest_place(chain.stage.name("snap"))))
        (state,) = (table for table in full["tables"] if table["name"] == "state")
        paths = [f"{store.uri}/{file['path']}" for file in state["files"]]
        keys = pd.concat([pd.read_parquet(s3.open(path)) for path in paths])["key"]
        assert sorted(keys) == sorted(key for key, _ in state_of(chain.store, chain.manifest("snap")))
        with duckdb.connect() as database:
            database.register_filesystem(s3)
            (by_duckdb,) = database.execute("SELECT count(*) FROM read_parquet(?)", [paths]).fetchall()[0]
        assert by_duckdb == state["rows"] > 0
        texts = store.texts()
        assert len(texts) == 2 and server.secret not in "".join(texts.values())
