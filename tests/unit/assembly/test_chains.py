"""The state of an incremental snapshot, from the files of its chain."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from snapkafka.assembly import published
from snapkafka.errors import BadInputError
from snapkafka.manifest import STATE, Manifest, state_table
from snapkafka.store import state_parents
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

DOCS: Final = Path(__file__).parents[3] / "docs" / "guide" / "assembly.md"
#: partition, key, value (None: deleted)
Row = tuple[int, bytes | None, str | None]
#: What each snapshot has: the first all of its state, the others what has changed since the one before.
CHAIN: Final[dict[str, list[Row]]] = {
    "monday": [(0, b"a", "1"), (1, b"a", "2"), (0, None, "3"), (0, b"b", "4"), (0, b"", "5"), (1, None, "6")],
    "tuesday": [(0, b"a", None), (1, b"a", "7"), (0, None, None), (0, b"c", "8"), (0, b"", None)],
    "wednesday": [(0, b"a", "9"), (0, b"c", None), (0, None, "10"), (1, b"a", "11")],
}
WHOLE: Final = {(1, b"a", "11"), (0, b"b", "4"), (1, None, "6"), (0, b"a", "9"), (0, None, "10")}


def rows_of(sql: str) -> list[Row]:
    with duckdb.connect() as db:
        found = db.sql(sql)
        assert "deleted" not in found.columns
        return list(found.select("partition, key_raw, value").fetchall())


def test_of_a_key_what_the_latest_snapshot_has_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own query, and by the one of the docs."""
    store, chain = LocalStore(tmp_path / "it's here"), list[Manifest]()
    table: dict[str, Any] = {"app": "shop", "table_name": "stock", "changelog_topic": "c"}
    for epoch, (name, of) in enumerate(CHAIN.items()):
        rows = [table | {"partition": at, "key_raw": key, "value": value} for at, key, value in of]
        if chain:
            rows = [row | {"deleted": row["value"] is None} for row in rows]
            chain.append(write_snapshot(store, name, epoch, parent=chain[-1], state_delta=rows))
        else:
            chain.append(write_snapshot(store, name, epoch, state=rows))
    assert [*state_parents(store, chain[-1])] == chain[:-1]
    (docs,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    files = {it.id: str([file.path for file in state_table(it).files]) for it in chain}
    docs = re.sub(r"\['(\w+)/[^]]*\]", lambda list_: files[list_[1]], docs)
    monkeypatch.chdir(store.root)
    for sql in (published(store, chain[-1]).queries[STATE], docs):
        found = rows_of(sql)
        assert (len(found), {*found}) == (len(WHOLE), WHOLE), sql


def test_a_manifest_without_state_is_said() -> None:
    with pytest.raises(BadInputError):
        state_table(dataclasses.replace(example(), tables=()))
