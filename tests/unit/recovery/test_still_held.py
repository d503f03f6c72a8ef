"""What a storage still holds of erased keys: each snapshot by its id, and the tables."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.manifest import dump
from snapkafka.recovery import Request
from snapkafka.recovery.still_held import PREVIEW_CHARS, with_held
from snapkafka.store import LocalStore
from tests.worlds.on_disk import write_snapshot
from tests.worlds.planned import done, planned
from tests.worlds.recovery import IN, LOG, captured, message

ANN = ops.Suppression(keys=("ann",))


def row(key: bytes) -> dict[str, Any]:
    return {
        "app": "app",
        "table_name": "t",
        "partition": 0,
        "key_raw": key,
        "value_raw": b"1",
        "changelog_topic": LOG.topic,
    }


def record(key: bytes, value: bytes = b"1") -> dict[str, Any]:
    return {"topic": "in", "partition": 0, "offset": 7, "key_raw": key, "value_raw": value}


def near(key: str | None, value: str | None = "1", size: int = 4) -> dict[str, Any]:
    return {"topic": "in", "partition": 0, "offset": 8, "key": key, "value": value, "bytes": size}


def write(store: LocalStore, name: str, epoch: int, **tables: Any) -> Any:
    manifest = write_snapshot(store, name, epoch, **tables)
    manifest = dataclasses.replace(manifest, captured=captured())
    store.manifest_path(name).write_text(dump(manifest))
    return manifest


async def held(store: LocalStore, suppression: ops.Suppression = ANN) -> dict[str, tuple[str, ...]]:
    found = await ops.still_held(None, "", "latest", suppression, storage=str(store.root))
    assert [it.epoch for it in found] == sorted(it.epoch for it in found), "oldest first"
    return {it.id: it.tables + it.problems for it in found}


async def test_each_snapshot_that_holds_an_erased_key_is_listed_with_its_tables(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    full = write(store, "state", 1, state=[row(b'"bob"'), row(b'["eu","ann"]')])
    write(store, "after", 2, parent=full, state_delta=[{**row(b'"cid"'), "deleted": False}])
    write(store, "erased", 3, parent=full, state_delta=[{**row(b'["eu","ann"]'), "deleted": True}])
    write(store, "messages", 4, messages=[message(1, b"1") | {"key_raw": b'"ann"'}])
    write(store, "inputs", 5, inputs=[record(b"ann")])
    write(store, "around", 6, around=[near("bob"), near("ann")])
    write(store, "none", 7, state=[row(b'"bob"')], inputs=[record(b"bob", b"ann")], around=[near("bob")])
    assert await held(store) == {
        "state": ("state",),
        "after": ("state",),
        "erased": ("state_delta",),
        "messages": ("messages",),
        "inputs": ("inputs",),
        "around": ("around",),
    }


async def test_sql_is_asked_of_values_and_headers_too(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write(store, "value", 1, inputs=[record(b"bob", b"ann")])
    headers = [{"key": "by", "value": b"ann"}]
    write(store, "header", 2, messages=[message(1, b"1") | {"headers": headers}])
    write(store, "near", 3, around=[near("bob", "ann")])
    write(store, "none", 4, state=[row(b'"bob"')])
    sql = "coalesce(value = 'ann', false) OR contains(headers, '\"ann\"')"
    assert await held(store, ops.Suppression(sql=(sql,))) == {
        "value": ("inputs",),
        "header": ("messages",),
        "near": ("around",),
    }


@pytest.mark.parametrize(
    ("tables", "problem"),
    [
        ({"state": [row(b"\0\0\0\0\0\0\0*")]}, "state: a key of table t of app app"),
        ({"inputs": [record(b"\0\0\0\0\1\x06ann")]}, "inputs: a key of topic in"),
        ({"around": [near("x" * PREVIEW_CHARS, size=999)]}, "around: a text of in[0] at offset 8 is cut off"),
        ({"around": [near(None, size=9)]}, "around: a text of in[0] at offset 8 is missing"),
    ],
)
async def test_what_cannot_be_examined_is_listed_as_such(
    tmp_path: Path, tables: dict[str, Any], problem: str
) -> None:
    store = LocalStore(tmp_path)
    write(store, "odd", 1, **tables)
    ((name, (found,)),) = (await held(store)).items()
    assert name == "odd"
    assert found.startswith(problem)


def test_a_snapshot_whose_files_are_lost_is_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    manifest = write(store, "lost", 1, state=[row(b'"bob"')])
    (state,) = (table for table in manifest.tables if table.name == "state")
    Path(store.place(state.files[0].path)).unlink()
    found = asyncio.run(held(store))["lost"]
    assert any("lacks file" in problem for problem in found)


async def test_a_result_names_what_still_holds_erased_keys(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    write(store, "friday", 1, state=[row(b'"ann"')])
    place = str(store.manifest_path("friday"))
    said: list[str] = []
    plan = planned(request=Request(name="friday", suppress=ANN), place=place)
    (found,) = (await with_held(done(), plan, said.append)).still_held or ()
    assert (found.id, found.tables) == ("friday", ("state",))
    lost = dataclasses.replace(plan, place=str(tmp_path / "nowhere.json"))
    assert (await with_held(done(), lost, said.append)).still_held is None
    assert "is not known" in said[-1], "what was asked for is done, and stays done"
    assert (await with_held(done(), planned(), said.append)) == done()


def test_texts_of_around_are_as_long_as_assembly_makes_them() -> None:
    from snapkafka.assembly import reaches

    assert PREVIEW_CHARS == reaches.PREVIEW_CHARS
    assert IN.topic == "in"
