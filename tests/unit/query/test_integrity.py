"""What `query` and `diff` read is what was written: files against the manifest, the manifest against the ledger."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import StorageError
from snapkafka.protocol import Verdict
from snapkafka.store import LocalStore, checked_files, require_unaltered
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import flip, in_state, write_snapshot

STATE = "one/state/part-00000.parquet"
SQL = "SELECT value FROM state"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = LocalStore(tmp_path / "snaps")
    write_snapshot(made, "one", 10, state=[in_state("x", "1")])
    write_snapshot(made, "two", 20, state=[in_state("x", "2")])
    return made


# -- files against the manifest ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one", "two"])
async def test_a_flipped_bit_is_no_answer(store: LocalStore, name: str) -> None:
    """Whichever snapshot of a query it is in."""
    sql = f"SELECT value FROM state UNION ALL SELECT value FROM {name}.state"
    await ops.query(None, "", sql, storage=store.uri, name="one")
    flip(store.root / f"{name}/state/part-00000.parquet")
    with pytest.raises(StorageError) as refused:
        await ops.query(None, "", sql, storage=store.uri, name="one")
    assert refused.value.facts["file"].endswith(f"{name}/state/part-00000.parquet")
    with pytest.raises(StorageError, match=r"part-00000\.parquet"):
        await ops.diff(None, "", "one", "two", storage=store.uri)


async def test_bits_of_a_parent_are_its_own(store: LocalStore) -> None:
    write_snapshot(store, "three", 30, parent=store.read("one"), state_delta=[])
    await ops.query(None, "", SQL, storage=store.uri, name="three")
    flip(store.root / STATE)
    with pytest.raises(StorageError, match=r"part-00000\.parquet"):
        await ops.query(None, "", SQL, storage=store.uri, name="three")


def test_what_was_left_out_is_named(store: LocalStore) -> None:
    def call(*arguments: str) -> Result:
        sql = "SELECT count(*) AS n FROM positions"
        return CliRunner().invoke(app, ["query", sql, "--storage", store.uri, *arguments])

    done = call("--snapshot", "two")
    assert done.stdout.count("note: ") == 1
    flip(store.root / "two/state/part-00000.parquet")
    assert call("--snapshot", "two").exit_code == StorageError.exit_status
    done = call("--snapshot", "two", "--unchecked")
    assert done.stdout.count("note: ") == 2
    reported = json.loads(call("--snapshot", "two", "--unchecked", "--json").stdout)
    assert reported["trust"]["files"] == 0
    assert len(reported["trust"]["not_compared"]) == 2


def test_a_file_is_read_again_only_after_a_change(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = store.read("one").tables[0].files
    read: list[str] = []
    whole = LocalStore.sha256

    def sha256(self: LocalStore, path: str) -> str:
        read.append(path)
        return whole(self, path)

    monkeypatch.setattr(LocalStore, "sha256", sha256)
    for _ in range(3):
        assert require_unaltered(store, [file]) == 1
    assert read == [STATE]
    path = store.root / STATE
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # somebody who sets the time back
    for _ in range(2):
        with pytest.raises(StorageError):
            require_unaltered(store, [file])
    assert read == [STATE] * 3


def cache_of(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "snapkafka" / checked_files.CACHE_NAME


def test_what_is_remembered_wrongly_accuses_nobody_and_excuses_nobody(
    store: LocalStore, tmp_path: Path
) -> None:
    (file,) = store.read("one").tables[0].files
    place, stamp = store.place(STATE), store.stamp(STATE)
    assert require_unaltered(store, [file]) == 1
    for kept in ((stamp, "f" * 64), ("other", file.sha256), (stamp, None), (b"\x00", 7)):
        with contextlib.closing(sqlite3.connect(cache_of(tmp_path))) as cache, cache:
            cache.execute("UPDATE checked SET stamp = ?, sha256 = ? WHERE place = ?", [*kept, place])
        assert require_unaltered(store, [file]) == 1
    flip(store.root / STATE)
    with contextlib.closing(sqlite3.connect(cache_of(tmp_path))) as cache, cache:
        cache.execute("UPDATE checked SET stamp = ?, sha256 = ?", [store.stamp(STATE), "f" * 64])
    with pytest.raises(StorageError, match=r"part-00000\.parquet"):
        require_unaltered(store, [file])


def test_the_oldest_are_forgotten_first(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_files, "REMEMBERED_MAX", 3)
    files = [file for table in store.read("one").tables for file in table.files]
    for file in (*files[:3], files[0], files[3]):
        if file is files[0]:
            os.utime(store.root / file.path)  # written to: it is checked again
        require_unaltered(store, [file])
    with contextlib.closing(sqlite3.connect(cache_of(tmp_path))) as cache:
        kept = [place for (place,) in cache.execute("SELECT place FROM checked ORDER BY rowid")]
    assert kept == [store.place(files[n].path) for n in (2, 0, 3)]


@pytest.mark.parametrize("content", ["", "[]" * 500, '{"x": 1}'])
def test_a_cache_that_is_none_is_no_obstacle_and_the_next_one_is(
    store: LocalStore, tmp_path: Path, content: str
) -> None:
    (file,) = store.read("one").tables[0].files
    cache = cache_of(tmp_path)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(content)
    for _ in range(2):
        assert require_unaltered(store, [file]) == 1
    assert cache.read_bytes().startswith(b"SQLite format 3")


def test_a_cache_that_cannot_be_had_is_no_obstacle(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = store.read("one").tables[0].files
    cache = cache_of(tmp_path)
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    assert require_unaltered(store, [file]) == 1
    cache.rmdir()
    with contextlib.closing(sqlite3.connect(cache)) as other, other:
        other.execute("CREATE TABLE checked (other TEXT)")
    assert require_unaltered(store, [file]) == 1
    monkeypatch.setattr(checked_files, "LOCKED_S", 0.05)
    cache.unlink()
    with contextlib.closing(sqlite3.connect(cache)) as other:
        other.execute("BEGIN EXCLUSIVE")
        there = cache.stat().st_ino
        assert require_unaltered(store, [file]) == 1
        assert cache.stat().st_ino == there, "another process has it"
    monkeypatch.setitem(sys.modules, "sqlite3", None)  # a Python that was built without it
    assert require_unaltered(store, [file]) == 1
    flip(store.root / STATE)
    with pytest.raises(StorageError, match=r"part-00000\.parquet"):
        require_unaltered(store, [file])


# -- the manifest against the ledger ---------------------------------------------------------------------------


async def in_ledger(store: LocalStore, *, sha256: str | None = None, place: str = "") -> FakeCluster:
    """A cluster whose ledger has a verdict of snapshot `one`, which is written anew under its epoch."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    taken = await ops.trigger(cluster, "shop", snapshot_id="one", wait=True)
    made = write_snapshot(store, "one", taken.epoch, state=[in_state("x", "1")])
    path = store.manifest_path("one")
    cluster.the_ledger.put(
        Verdict(
            n=9,
            epoch=taken.epoch,
            verdict="VERIFIED",
            manifest=place or str(path),
            digest=made.content,
            manifest_sha256=hashlib.sha256(path.read_bytes()).hexdigest() if sha256 is None else sha256,
        )
    )
    return cluster


async def test_the_manifest_that_was_verified(store: LocalStore) -> None:
    cluster = await in_ledger(store)
    found = await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
    assert found.trust.not_compared == ()
    assert found.trust.files == 5


@pytest.mark.parametrize(
    ("old", "new"),
    [('"rows": 1', '"rows": 2'), ('"sha256": "', '"sha256": "0'), ('"VERIFIED"', '"VERIFIED_OPEN"')],
)
async def test_another_manifest_than_the_one_that_was_verified(store: LocalStore, old: str, new: str) -> None:
    cluster = await in_ledger(store)
    path = store.manifest_path("one")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(StorageError, match=r"one\.json"):
        await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
    with pytest.raises(StorageError, match=r"one\.json"):
        await ops.diff(cluster, "shop", "one", "two", storage=store.uri)


@pytest.mark.parametrize(
    ("sha256", "place", "named"),
    [("", "", "one"), ("f" * 64, "/elsewhere/one.json", "/elsewhere/one.json")],
)
async def test_why_a_manifest_was_not_compared(
    store: LocalStore, sha256: str, place: str, named: str
) -> None:
    cluster = await in_ledger(store, sha256=sha256, place=place)
    found = await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
    (line,) = found.trust.not_compared
    assert named in line
    found = await ops.query(cluster, "shop", SQL, storage=store.uri, name="two")
    assert "two" in found.trust.not_compared[0]


async def test_rows_of_another_assembly_elsewhere_are_not_taken_for_a_copy(store: LocalStore) -> None:
    cluster = await in_ledger(store, sha256="f" * 64, place="/elsewhere/one.json")
    path = store.manifest_path("one")
    path.write_text(path.read_text().replace('"content": "', '"content": "0'))
    with pytest.raises(StorageError, match=r"one\.json"):
        await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
