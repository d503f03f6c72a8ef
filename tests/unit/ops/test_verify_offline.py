"""`verify --offline`: every kind of damage to a snapshot in storage is found, in the very file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import verbs as commands
from snapkafka.errors import BadInputError, UnknownSnapshotError
from snapkafka.manifest import Manifest, content_digest, dump, load, state_table
from snapkafka.manifest_entries import CheckEntry, Column, FileEntry, InvariantEntry, TableEntry
from snapkafka.store import Damage, file_damage
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import flip, in_state, write_snapshot
from tests.worlds.stores import LocalStore

STATE = "one/state/part-00000.parquet"
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A sound snapshot `one`: `state` has five rows in two files, `messages` has none in one."""
    made = LocalStore(tmp_path)
    folder = made.root / "one"
    entries = (table(folder, "state", [2, 3]), table(folder, "messages", [0]))
    made.publish(sound(entries), "one")
    return made


def table(folder: Path, name: str, rows: list[int]) -> TableEntry:
    files = []
    for number, count in enumerate(rows):
        path = folder / name / f"part-{number:05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"app": pa.array(["shop"] * count, pa.string()), "n": list(range(count))}), path
        )
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(
            FileEntry(path=f"one/{name}/{path.name}", bytes=path.stat().st_size, rows=count, sha256=digest)
        )
    schema = (Column(name="app", type="string"), Column(name="n", type="bigint"))
    return TableEntry(
        name=name, path=f"one/{name}", rows=sum(rows), digest="1", schema=schema, files=tuple(files)
    )


def sound(tables: tuple[TableEntry, ...]) -> Manifest:
    passed = [
        CheckEntry(name=name, run=True, status="passed") for name in ("V1", "V2", "V4", "V5", "V6 money")
    ]
    return dataclasses.replace(
        example(),
        id="one",
        verdict="VERIFIED",
        content=content_digest(tables),
        tables=tables,
        checks=(*passed, CheckEntry(name="V3", run=False, status="not-run")),
        invariants=(InvariantEntry(name="money", sql="SELECT 1 WHERE 1 = 2"),),
        captured=dataclasses.replace(example().captured, id="one"),
    )


async def damage(store: LocalStore) -> list[tuple[str, str]]:
    """What is found, through both ways in."""
    found = await ops.verify_offline(manifest=str(store.manifest_path("one")))
    assert found == await ops.verify_offline("one", storage=store.uri)
    if found.id:
        assert found == await ops.verify_offline("latest", storage=store.uri)
    assert found.good == (not found.damage)
    return [(item.file, item.what) for item in found.damage]


def edit(store: LocalStore, change: Edit, *, renew: bool = True) -> None:
    """Change a manifest; `renew`: its checksum as well, as somebody does who hides it."""
    path = store.manifest_path("one")
    manifest_json = json.loads(path.read_text())
    change(manifest_json)
    text = json.dumps(manifest_json)
    path.write_text(dump(load(text)) if renew else text)


# -- sound ---------------------------------------------------------------------------------------------------


async def test_what_was_looked_at_is_reported(store: LocalStore) -> None:
    found = await ops.verify_offline("one", storage=store.uri)
    assert (found.id, found.epoch, found.verdict, found.files) == ("one", 18, "VERIFIED", 3)
    assert found.bytes == sum(path.stat().st_size for path in store.root.rglob("*.parquet"))


async def test_a_verdict_that_is_no_good_one_is_not_good_although_nothing_is_damaged(
    store: LocalStore,
) -> None:
    def condemn(manifest_json: dict[str, Any]) -> None:
        manifest_json["checks"][0] |= {"status": "unverifiable"}
        manifest_json["verdict"] = "UNVERIFIABLE"

    edit(store, condemn)
    found = await ops.verify_offline("one", storage=store.uri)
    assert (found.damage, found.good) == ((), False)


# -- files ---------------------------------------------------------------------------------------------------


async def test_a_flipped_bit(store: LocalStore) -> None:
    for place in (4, -9):  # in the first page, in the footer
        flip(store.root / STATE, place)
        ((file, what),) = await damage(store)
        assert file == STATE
        assert what.startswith("has changed: SHA-256")
        flip(store.root / STATE, place)
    assert await damage(store) == []


async def test_a_file_that_is_missing(store: LocalStore) -> None:
    (store.root / STATE).unlink()
    assert await damage(store) == [(STATE, "is missing")]


async def test_a_file_that_was_cut_short_or_is_longer(store: LocalStore) -> None:
    data = (store.root / STATE).read_bytes()
    for changed in (data[:-1], data + b"x", b""):
        (store.root / STATE).write_bytes(changed)
        assert await damage(store) == [(STATE, f"has {len(changed):,} bytes, and had {len(data):,}")]


@pytest.mark.parametrize(
    "name", ["one/state/part-00002.parquet", "one/state/_SUCCESS", "one/extra/x.parquet", "one/.x"]
)
async def test_a_file_that_nobody_named(store: LocalStore, name: str) -> None:
    (store.root / name).parent.mkdir(exist_ok=True)
    (store.root / name).write_text("")
    assert await damage(store) == [(name, "the manifest does not name it")]


async def test_an_incremental_one_of_whose_parent_a_bit_was_flipped(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    full = write_snapshot(store, "full", 1, state=[in_state("x", "1")])
    child = write_snapshot(store, "one", 18, parent=full)
    (file,) = state_table(full).files

    def found() -> list[Damage]:
        return [item for item in file_damage(store, child) if item.file == file.path]

    assert found() == []
    flip(tmp_path / file.path)
    (damage,) = found()
    assert "has changed" in damage.what


@pytest.mark.parametrize("path", ["../one/state/part-00000.parquet", "/etc/hostname"])
async def test_a_path_that_leads_elsewhere(store: LocalStore, path: str) -> None:
    def lead_away(manifest_json: dict[str, Any]) -> None:
        manifest_json["tables"][0]["files"][0]["path"] = path

    edit(store, lead_away)
    assert (path, "lies outside of the storage") in await damage(store)


async def test_a_value_that_was_altered_under_a_renewed_sha256(store: LocalStore) -> None:
    """Size and SHA-256 of the manifest are those of the altered file: only its checksum tells."""
    path = store.root / "one/state/part-00001.parquet"
    pq.write_table(pa.table({"app": ["shop", "shop", "shop"], "n": [0, 1, 200]}), path)
    data = path.read_bytes()
    renewed = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(store, lambda it: it["tables"][0]["files"][1].update(renewed), renew=False)
    ((file, what),) = await damage(store)
    assert (file, what[:16]) == ("one.json", "has changed sinc")


# -- the manifest --------------------------------------------------------------------------------------------


def put(*path: str | int, value: object) -> Edit:
    def change(manifest_json: dict[str, Any]) -> None:
        place: Any = manifest_json
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        put("tables", 0, "rows", value=6),
        put("tables", 0, "digest", value="8"),
        put("tables", 1, "schema", 0, "name", value="owner"),
        put("content", value="0" * 64),
        put("verdict", value="VERIFIED_WITH_REPLAYS"),
        put("captured", "contaminated", value="the ledger was away"),
        put("captured", "unread", value=[{"app": "a", "topic": "t"}]),
        put("checks", 0, "status", value="failed"),
        put("checks", 0, "run", value=False),
        put("invariants", value=[]),
        put("epoch", value=19),
        put("checksum", value=""),
        lambda manifest_json: manifest_json["checks"].pop(1),
    ],
)
async def test_a_manifest_of_which_anything_was_edited(store: LocalStore, change: Edit) -> None:
    edit(store, change, renew=False)
    assert [file for file, what in await damage(store) if "its checksum is" in what] == ["one.json"]


@pytest.mark.parametrize("cut", [1, 40, -3])
async def test_a_manifest_that_was_cut_short(store: LocalStore, cut: int) -> None:
    path = store.manifest_path("one")
    path.write_text(path.read_text()[:cut])
    ((file, what),) = await damage(store)
    assert file == "one.json"
    assert what.startswith("is no longer a valid manifest: is not JSON")


async def test_what_is_no_damage_is_an_error(store: LocalStore) -> None:
    edit(store, put("version", value=9), renew=False)
    with pytest.raises(BadInputError, match="has version 9"):
        await ops.verify_offline("one", storage=store.uri)
    with pytest.raises(UnknownSnapshotError):
        await ops.verify_offline("two", storage=store.uri)
    with pytest.raises(BadInputError, match="no snapshot is named"):
        await ops.verify_offline()


# -- the command ---------------------------------------------------------------------------------------------


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, ["verify", "--offline", *arguments])


def test_the_command_needs_no_broker_and_has_a_status_for_damage(store: LocalStore) -> None:
    where = ("one", "--storage", str(store.root))
    fine = call(*where)
    assert fine.exit_code == 0, fine.output
    assert "3 files, " in fine.stdout
    assert "unaltered" in fine.stdout and "VERIFIED" in fine.stdout
    (store.root / STATE).unlink()
    damaged = call(*where)
    assert damaged.exit_code == 30
    assert f"damaged: {STATE}: is missing" in damaged.stdout
    manifest_json = json.loads(call(*where, "--json").stdout)
    assert (manifest_json["good"], manifest_json["damage"]) == (
        False,
        [{"file": STATE, "what": "is missing"}],
    )
    assert call(*where, "--record").exit_code == 2
    assert call("two", "--storage", str(store.root)).exit_code == 5


async def test_an_incremental_one_whose_parent_is_gone_or_another_by_now(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    full = write_snapshot(store, "full", 1, state=[in_state("x", "1")])
    manifest = write_snapshot(store, "one", 18, parent=full)
    whole = manifest

    def found(manifest: Manifest) -> str:
        return "; ".join(item.what for item in file_damage(store, manifest))

    assert "builds on" not in found(whole)
    other = dataclasses.replace(whole, parents=(dataclasses.replace(whole.parents[0], digest="7"),))
    assert "one builds on full, which has changed" in found(other)
    store.manifest_path("full").unlink()
    assert "one builds on full, which cannot be used: snapshot full is not assembled in" in found(whole)
