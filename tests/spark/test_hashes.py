"""Digests of files by Spark's tasks: each file in its folder, whatever that is called."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly.spark.write import file_hashes
from snapkafka.manifest import file_stem
from snapkafka.manifest_entries import FileEntry
from snapkafka.store import LocalStore

pytestmark = pytest.mark.nightly


def test_each_file_in_its_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of ids that no file can be called by; and a file that is too large for a task is read here."""
    monkeypatch.setattr(file_hashes, "FILE_BYTES_MAX", 100)
    store, here, wanted = LocalStore(tmp_path / "a place"), list[str](), []
    folders = [f"{file_stem(name)}/state" for name in ("plain", "a b", "one/two", "two", "50%", "über")]
    for n, folder in enumerate(folders):
        for name, size in (("part-00000.parquet", n + 1), ("part-00001.parquet", 101)):
            file = store.root / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content := f"{n}".encode() * size)
            digest = sha256(content).hexdigest()
            wanted.append(FileEntry(path=f"{folder}/{name}", bytes=len(content), sha256=digest))
        (store.root / folder / "part-00002.txt").write_text("none of ours")

    def read_here(path: str) -> str:
        here.append(path)
        return store.sha256(path)

    found = file_hashes.files(spark, {folder: store.spark_uri(folder) for folder in folders}, read_here)
    assert found == sorted(wanted, key=lambda entry: entry.path)
    assert sorted(here) == sorted(f"{folder}/part-00001.parquet" for folder in folders)
