"""The stored tables of a snapshot, as the embedded engine reads them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.assembly import HandOverError, arrow
from snapkafka.assembly.embedded import stored_tables
from snapkafka.assembly.embedded.write import write
from snapkafka.errors import StorageError
from snapkafka.manifest import file_stem
from snapkafka.manifest_entries import TableEntry
from snapkafka.store import LocalStore

ROW = {"app": "a", "agent": "a.agent", "topic": "t", "partition": 0, "position": 5, "started_above": []}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def stored(store: LocalStore) -> tuple[Any, TableEntry]:
    """A table of one row, where its manifest would have it."""
    folder = store.root / file_stem("snap")
    folder.mkdir()
    entry = write("positions", arrow("positions", [ROW]), store, folder, file_stem("snap"))
    return SimpleNamespace(id="snap", tables=(entry,)), entry


def test_every_file_of_a_folder_counts_but_hidden_ones_and_those_below(store: LocalStore) -> None:
    """As for Spark, whose own files have a checksum beside them and a file that says that they are complete."""
    manifest, table = stored(store)
    place = store.root / table.files[0].path
    for name in ("_SUCCESS", ".part-00000.parquet.crc", "below/part-00000.parquet", "part-00001.parquet"):
        place.with_name("below").mkdir(exist_ok=True)
        place.parent.joinpath(name).write_bytes(place.read_bytes())
    assert stored_tables.files_in(store, manifest, table) == [
        f"{table.path}/part-0000{n}.parquet" for n in (0, 1)
    ]
    assert stored_tables.stored_tables(store, manifest)["positions"].num_rows == 2


@pytest.mark.parametrize("column", ["partition", "started_above"])
def test_a_column_of_another_type_is_a_fault_of_the_storage(store: LocalStore, column: str) -> None:
    manifest, table = stored(store)
    place = store.root / table.files[0].path
    with pq.ParquetFile(place) as file:
        before = file.read()
    at = before.schema.get_field_index(column)
    pq.write_table(before.set_column(at, column, pa.array(["x"])), place)
    with pytest.raises(StorageError, match=r"part-00000.parquet cannot be read"):
        stored_tables.stored_tables(store, manifest)


def test_more_rows_than_memory_is_meant_for_are_handed_over(store: LocalStore) -> None:
    manifest, table = stored(store)
    manifest.tables = (replace(table, rows=stored_tables.ROWS_MAX + 1),)
    with pytest.raises(HandOverError, match="300,001 rows"):
        stored_tables.stored_tables(store, manifest)
