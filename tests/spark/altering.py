"""Alter the stored tables of a snapshot as somebody would who hides it: size and SHA-256 in the manifest renewed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tests.worlds.stores import LocalStore

Rows = list[dict[str, Any]]


def alter(store: LocalStore, snapshot: str, table: str, change: Callable[[Rows], Rows]) -> None:
    """Change the rows of a table of one file."""
    path = store.manifest_path(snapshot)
    reported = json.loads(path.read_text())
    (entry,) = (entry for entry in reported["tables"] if entry["name"] == table)
    (file,) = entry["files"]
    place = store.root / file["path"]
    with pq.ParquetFile(place) as read:
        before = read.read()
    rows = change(before.to_pylist())
    assert rows != before.to_pylist(), "nothing was altered"
    pq.write_table(pa.Table.from_pylist(rows, schema=before.schema), place)
    file |= {"bytes": place.stat().st_size, "sha256": hashlib.sha256(place.read_bytes()).hexdigest()}
    path.write_text(json.dumps(reported))
