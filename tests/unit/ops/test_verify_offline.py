"""`verify --offline`: every kind of damage to a snapshot in storage is found, in the very file."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, UnknownSnapshotError
from snapkafka.manifest import dump, load, state_table
from snapkafka.store import file_damage
from tests.worlds.on_disk import flip, in_state, write_snapshot
from tests.worlds.stores import LocalStore

STATE = "one/state/part-00000.parquet"
Edit = Callable[[dict[str, Any]], object]
Harm = Callable[[LocalStore], object]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A sound snapshot `one`."""
    made = LocalStore(tmp_path)
    write_snapshot(made, "one", 18, state=[in_state("x", "1"), in_state("y", "2")])
    return made


async def damage(store: LocalStore) -> list[tuple[str, str]]:
    """What is found, through both ways in."""
    found = await ops.verify_offline("one", storage=store.uri)
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


def edited(change: Edit) -> Harm:
    return lambda store: edit(store, change, renew=False)


def put(*path: str | int, value: object) -> Edit:
    def change(manifest_json: dict[str, Any]) -> None:
        place: Any = manifest_json
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


async def test_what_was_looked_at_is_reported(store: LocalStore) -> None:
    found = await ops.verify_offline("one", storage=store.uri)
    files = list(store.root.rglob("*.parquet"))
    assert (found.id, found.epoch, found.verdict, found.files) == ("one", 18, "VERIFIED", len(files))
    assert (found.bytes, found.good) == (sum(path.stat().st_size for path in files), True)
    edit(store, put("verdict", value="UNVERIFIABLE"))
    found = await ops.verify_offline("one", storage=store.uri)
    assert (found.damage, found.good) == ((), False), "it is not a good one, although nothing is damaged"


def file(change: Callable[[Path], object], name: str = STATE) -> Harm:
    return lambda store: change(store.root / name)


def text(change: Callable[[str], str]) -> Harm:
    return lambda store: (path := store.manifest_path("one")).write_text(change(path.read_text()))


def rewritten(store: LocalStore) -> None:
    """Size and SHA-256 of the manifest are those of the altered file: only its checksum tells."""
    flip(store.root / STATE)
    digest = hashlib.sha256((store.root / STATE).read_bytes()).hexdigest()
    edit(store, put("tables", 0, "files", 0, "sha256", value=digest), renew=False)


def lead(path: str) -> Harm:
    return lambda store: edit(store, put("tables", 0, "files", 0, "path", value=path))


def added(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("")


UNNAMED = ("one/state/part-00002.parquet", "one/state/_SUCCESS", "one/extra/x.parquet", "one/.x")
HARM: list[tuple[Harm, str, str]] = [
    (file(flip), STATE, "has changed: SHA-256"),
    (file(lambda path: flip(path, -9)), STATE, "has changed: SHA-256"),  # in the footer
    (file(Path.unlink), STATE, "is missing"),
    (file(lambda path: path.write_bytes(path.read_bytes()[:-1])), STATE, "has "),
    (file(lambda path: path.write_bytes(path.read_bytes() + b"x")), STATE, "has "),
    (file(lambda path: path.write_bytes(b"")), STATE, "has 0 bytes"),
    *((file(added, name), name, "the manifest does not name it") for name in UNNAMED),
    (lead("../one/state/x.parquet"), "../one/state/x.parquet", "lies outside of the storage"),
    (lead("/etc/hostname"), "/etc/hostname", "lies outside of the storage"),
    (rewritten, "one.json", "has changed since"),
    *(
        (edited(change), "one.json", "has changed since")
        for change in (
            put("tables", 0, "digest", value="8"),
            put("captured", "contaminated", value="the ledger was away"),
            put("checks", 0, "run", value=False),
            put("checksum", value=""),
            lambda manifest_json: manifest_json["checks"].pop(1),
        )
    ),
    *((text(lambda it, at=at: it[:at]), "one.json", "is no longer a valid manifest") for at in (1, 40, -3)),  # type: ignore[misc]
]


@pytest.mark.parametrize(("harm", "name", "what"), HARM)
async def test_each_damage_is_named_with_its_file(
    store: LocalStore, harm: Harm, name: str, what: str
) -> None:
    assert await damage(store) == []
    harm(store)
    assert [it for it in await damage(store) if it[0] == name and it[1].startswith(what)]


async def test_what_is_no_damage_is_an_error(store: LocalStore) -> None:
    edit(store, put("version", value=9), renew=False)
    with pytest.raises(BadInputError, match="has version 9"):
        await ops.verify_offline("one", storage=store.uri)
    with pytest.raises(UnknownSnapshotError):
        await ops.verify_offline("two", storage=store.uri)
    with pytest.raises(BadInputError, match="no snapshot is named"):
        await ops.verify_offline()


async def test_an_incremental_one_needs_its_parent_as_it_was(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    full = write_snapshot(store, "full", 1, state=[in_state("x", "1")])
    whole = write_snapshot(store, "one", 18, parent=full)
    (part,) = state_table(full).files
    assert list(file_damage(store, whole)) == []
    flip(tmp_path / part.path)
    assert [(it.file, "has changed" in it.what) for it in file_damage(store, whole)] == [(part.path, True)]
    flip(tmp_path / part.path)
    other = dataclasses.replace(whole, parents=(dataclasses.replace(whole.parents[0], digest="7"),))
    assert any("which has changed" in it.what for it in file_damage(store, other))
    store.manifest_path("full").unlink()
    assert any("which cannot be used" in it.what for it in file_damage(store, whole))
