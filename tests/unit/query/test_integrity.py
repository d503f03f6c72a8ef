"""What `query` and `diff` read is what was written: files against the manifest, the manifest against the ledger."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import StorageError
from snapkafka.protocol import Verdict
from snapkafka.query import manifest_check
from snapkafka.query.engine import Placed
from snapkafka.query.manifest_check import compared_files
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import flip, in_state, write_snapshot
from tests.worlds.stores import LocalStore

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


@pytest.mark.parametrize(("name", "damaged"), [("one", "one"), ("two", "two"), ("three", "one")])
async def test_a_flipped_bit_is_no_answer(store: LocalStore, name: str, damaged: str) -> None:
    """Whichever snapshot of a query it is in, or on which that builds."""
    write_snapshot(store, "three", 30, parent=store.read("one"), state_delta=[])
    file = f"{damaged}/state/part-00000.parquet"
    sql = f"SELECT value FROM state UNION ALL SELECT value FROM {name}.state"
    await ops.query(None, "", sql, storage=store.uri, name="two")
    for damage in (flip, Path.unlink):
        damage(store.root / file)
        with pytest.raises(StorageError) as refused:
            await ops.query(None, "", sql, storage=store.uri, name="two")
        assert damaged != name or refused.value.facts["file"].endswith(file)
        with pytest.raises(StorageError, match=r"part-00000\.parquet"):
            await ops.diff(None, "", "two", name if name != "two" else "one", storage=store.uri)


def test_many_bytes_are_compared_by_their_number_alone(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_check, "HASHED_BYTES_MAX", 10)
    flip(store.root / STATE)
    one = [Placed(store, store.read("one"))]
    trust = compared_files(one)
    assert (trust.files, len(trust.not_compared)) == (0, 1)
    (store.root / STATE).write_bytes(b"x")
    with pytest.raises(StorageError):
        compared_files(one)


# -- the manifest against the ledger ---------------------------------------------------------------------------


async def in_ledger(store: LocalStore, *, sha256: str | None = None, place: str = "") -> FakeCluster:
    """A cluster whose ledger has a verdict of snapshot `one`, which is written anew under its epoch."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    taken = await ops.trigger(cluster, "shop", snapshot_id="one", wait=True)
    made = write_snapshot(store, "one", taken.epoch, state=[in_state("x", "1")])
    path = store.manifest_path("one")
    known = hashlib.sha256(path.read_bytes()).hexdigest() if sha256 is None else sha256
    of: dict[str, Any] = {"manifest": place or str(path), "digest": made.content, "manifest_sha256": known}
    cluster.the_ledger.put(Verdict(n=9, epoch=taken.epoch, verdict="VERIFIED", **of))
    return cluster


async def test_the_manifest_that_was_verified(store: LocalStore) -> None:
    cluster = await in_ledger(store)
    found = await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
    assert found.trust.not_compared == ()
    assert found.trust.files == 5


ELSEWHERE = {"sha256": "f" * 64, "place": "/elsewhere/one.json"}


@pytest.mark.parametrize(
    ("recorded", "old", "new"),
    [
        ({}, '"rows": 1', '"rows": 2'),
        ({}, '"sha256": "', '"sha256": "0'),
        ({}, '"VERIFIED"', '"VERIFIED_OPEN"'),
        (ELSEWHERE, '"content": "', '"content": "0'),
    ],
)
async def test_another_manifest_than_the_one_that_was_verified(
    store: LocalStore, recorded: dict[str, str], old: str, new: str
) -> None:
    """Nor are the rows of another assembly, elsewhere, taken for a copy."""
    cluster = await in_ledger(store, **recorded)
    path = store.manifest_path("one")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(StorageError, match=r"one\.json"):
        await ops.query(cluster, "shop", SQL, storage=store.uri, name="one")
    with pytest.raises(StorageError, match=r"one\.json"):
        await ops.diff(cluster, "shop", "one", "two", storage=store.uri)


@pytest.mark.parametrize(("recorded", "named"), [({"sha256": ""}, "one"), (ELSEWHERE, ELSEWHERE["place"])])
async def test_why_a_manifest_was_not_compared(
    store: LocalStore, recorded: dict[str, str], named: str
) -> None:
    cluster = await in_ledger(store, **recorded)
    for name, why in (("one", named), ("two", "two")):
        found = await ops.query(cluster, "shop", SQL, storage=store.uri, name=name)
        (line,) = found.trust.not_compared
        assert why in line
