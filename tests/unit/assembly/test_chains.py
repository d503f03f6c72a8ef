"""The state of an incremental snapshot, from the files of its chain; and a chain that is broken is found."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from snapkafka.errors import BadInputError
from snapkafka.manifest import Manifest, state_table
from snapkafka.store import state_parts, state_sql
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

DOCS = Path(__file__).parents[3] / "docs" / "guide" / "assembly.md"
NAMES = ("monday", "tuesday", "wednesday")
#: partition, key, value (None: deleted), offset
Row = tuple[int, bytes | None, str | None, int]


def publish(
    store: LocalStore, name: str, epoch: int, rows: Sequence[Row], parent: Manifest | None = None
) -> Manifest:
    """A snapshot whose one table has these rows of state."""
    table: dict[str, Any] = {"app": "shop", "table_name": "stock", "changelog_topic": "c"}
    state = [
        table | {"partition": partition, "key_raw": key, "value": value, "changelog_offset": offset}
        for partition, key, value, offset in rows
    ]
    if parent is None:
        return write_snapshot(store, name, epoch, state=state)
    delta = [row | {"deleted": row["value"] is None} for row in state]
    return write_snapshot(store, name, epoch, parent=parent, state_delta=delta)


def random_chain(store: LocalStore, rng: random.Random) -> tuple[Manifest, set[Row]]:
    """Three snapshots, and the rows of state that the last one has."""
    keys = [None, b"", b"a", b"b", b"c"]
    state: dict[tuple[int, bytes | None], Row] = {}
    chain: list[Manifest] = []
    offset = 0
    for number, name in enumerate(NAMES):
        changed: dict[tuple[int, bytes | None], Row] = {}
        for _ in range(rng.randint(4, 12)):
            place = (rng.randint(0, 1), rng.choice(keys))
            offset += rng.randint(1, 3)
            changed[place] = (*place, rng.choice([None, "x", "y"]), offset)
        state |= changed
        rows = [row for row in changed.values() if chain or row[2] is not None]
        chain.append(publish(store, name, number, rows, *chain[-1:]))
    return chain[-1], {row for row in state.values() if row[2] is not None}


def rows_of(sql: str) -> set[Row]:
    with duckdb.connect() as db:
        found = db.sql(sql)
        assert "deleted" not in found.columns
        rows = found.select("partition, key_raw, value, changelog_offset").fetchall()
    assert len(rows) == len({row[:2] for row in rows}), "no key is there twice"
    return set(rows)


def _in_docs(store: LocalStore) -> str:
    """The query of the docs, over the files that these manifests name."""
    (query,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    files = {name: [it.path for it in state_table(store.read(name)).files] for name in NAMES}
    return re.sub(r"\['(\w+)/[^]]*\]", lambda list_: str(files[list_[1]]), query)


@pytest.mark.parametrize("seed", range(4))
def test_of_a_key_what_the_latest_snapshot_has_counts(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own query, and by the one of the docs. The parts come oldest first; another order is noticed."""
    store = LocalStore(tmp_path / "it's here")
    last, expected = random_chain(store, random.Random(seed))
    full, one, other = parts = state_parts(store, last)
    assert tuple(part.id for part in parts) == NAMES
    assert rows_of(state_sql(store, parts)) == expected
    assert rows_of(state_sql(store, (full, other, one))) != expected
    monkeypatch.chdir(store.root)
    assert rows_of(_in_docs(store)) == expected


def test_a_full_snapshot_is_all_of_its_state(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    full = publish(store, "full", 1, [(0, b"a", "x", 1)])
    assert state_parts(store, full) == (full,)
    assert rows_of(state_sql(store, (full,))) == {(0, b"a", "x", 1)}


def test_a_manifest_without_state_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        state_parts(LocalStore(tmp_path), dataclasses.replace(example(), tables=()))
