"""Snapshots in a local directory: whole or not at all."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from snapkafka import manifest as manifests
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.manifest import Manifest
from snapkafka.manifest_entries import FileEntry
from snapkafka.store import LocalStore, local, locks, open_store
from snapkafka.store.base import Hashed
from tests.unit.base.test_manifest import example


def publish(
    store: LocalStore,
    content: str = "c",
    text: str = "rows",
    snapshot_id: str = "one",
    hashed: Hashed | None = None,
) -> Manifest:
    """A snapshot with one table of one file."""
    with store.staging(snapshot_id) as folder:
        (folder / "state").mkdir()
        (folder / "state" / "part-00000.parquet").write_text(text)
        digest = sha256(text.encode()).hexdigest()
        file = FileEntry(path=f"{snapshot_id}/state/part-00000.parquet", bytes=len(text), sha256=digest)
        table = dataclasses.replace(example().tables[0], path=f"{snapshot_id}/state", files=(file,))
        manifest = dataclasses.replace(example(), id=snapshot_id, content=content, tables=(table,))
        return store.publish(manifest, folder, hashed=hashed)


def test_what_was_published_is_read_and_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "new")
    store.check_writable()
    published = publish(store)
    assert store.read("one") == published
    assert store.list() == [published]
    assert (tmp_path / "new" / "one" / "state" / "part-00000.parquet").read_text() == "rows"
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["one", "one.json"]


def test_paths_and_uris_are_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "a place"
    for given in (str(folder), folder.as_uri()):
        assert str(open_store(given)) == str(folder)
    assert open_store(folder.as_uri()).uri == folder.as_uri()


@pytest.mark.parametrize(
    "uri", ["ftp://n/x", "s3a:///x", "s3a://me:secret@bucket/x", "file://elsewhere/x", ""]
)
def test_a_place_that_cannot_be_used_is_refused(uri: str) -> None:
    with pytest.raises(StorageError):
        open_store(uri)


def test_unwritable_is_said_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="below"):
        LocalStore(tmp_path / "file" / "below").check_writable()


@pytest.mark.parametrize("name", ["a[1]", "a{x}", "a*", "a?", "a\\b"])
def test_a_place_that_spark_would_not_find_again_is_refused_before_any_work(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(StorageError):
        LocalStore(tmp_path / name).check_writable()
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)

    def fail() -> None:
        with store.staging("one") as folder:
            (folder / "state").mkdir()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []
    assert store.list() == []


def test_what_a_killed_assembly_leaves_is_not_listed(tmp_path: Path) -> None:
    """The tables have been moved, the manifest not yet written."""
    store = LocalStore(tmp_path)
    (tmp_path / "one").mkdir()
    (tmp_path / f"one.tmp-{'ab' * 16}").mkdir()
    (tmp_path / f"one.json.tmp-{'cd' * 16}").write_text("{")
    assert store.list() == []
    with pytest.raises(UnknownSnapshotError):
        store.read("one")
    others = [f"one-more.tmp-{'ab' * 16}", "one.tmp-backup"]
    for name in others:
        (tmp_path / name).mkdir()
    publish(store)  # and the next one is not hindered, and takes it away
    assert [manifest.id for manifest in store.list()] == ["one"]
    assert {path.name for path in tmp_path.iterdir()} == {"one", "one.json", *others}


def test_what_a_living_assembly_writes_is_left_alone(tmp_path: Path) -> None:
    """Of the same snapshot: the one that ends first publishes, and so does the other."""
    store = LocalStore(tmp_path)
    with store.staging("one") as folder:
        (folder / "state").mkdir()
        publish(store, text="the quick one's")
        assert (folder / "state").is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.json"]
    assert (tmp_path / "one" / "state" / "part-00000.parquet").read_text() == "the quick one's"


def test_a_killed_process_gives_its_folder_up(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from snapkafka.store import LocalStore\n"
        "with LocalStore(pathlib.Path(sys.argv[1])).staging('one') as folder:\n"
        "    print(folder.name, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert [path.name for path in tmp_path.iterdir()] == [killed.stdout.strip()]
    publish(LocalStore(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.json"]


def test_two_at_once_do_not_spoil_each_other(tmp_path: Path) -> None:
    """Whoever comes last, the manifest that stays names the files that stay."""
    store = LocalStore(tmp_path)

    def many(name: str) -> None:
        for n in range(40):
            publish(store, content=f"{name}{n}", text=name * (n + 1))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(many, name) for name in "abc"]:
            done.result()
    (file,) = store.read("one").tables[0].files
    text = (tmp_path / file.path).read_text()
    assert (len(text), len(set(text))) == (file.bytes, 1)
    assert store.read("one").content == f"{text[0]}{len(text) - 1}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.json"]


def test_the_place_is_locked_until_the_manifest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def write(path: Path, text: str) -> None:
        with pytest.raises(BlockingIOError), locks.locked(tmp_path, wait=False):
            pass
        tried.append(path.name)

    monkeypatch.setattr(local, "_write_whole", write)
    publish(LocalStore(tmp_path))
    assert tried == ["one.json"]


def test_the_same_rows_again_leave_the_files_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    publish(store, text="rows")
    again = publish(store, text="rows, written in another order")
    assert (tmp_path / "one" / "state" / "part-00000.parquet").read_text() == "rows"
    assert again.tables[0].files[0].bytes == len("rows")


def test_other_rows_replace_the_old(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    publish(store, content="c", text="rows")
    publish(store, content="d", text="others")
    assert (tmp_path / "one" / "state" / "part-00000.parquet").read_text() == "others"
    assert store.read("one").content == "d"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "one.json"]


def test_lost_tables_are_written_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    publish(store)
    (tmp_path / "one" / "state" / "part-00000.parquet").unlink()
    publish(store, text="rows")
    assert (tmp_path / "one" / "state" / "part-00000.parquet").read_text() == "rows"


@pytest.mark.parametrize("hashed", [False, True])
def test_changed_tables_are_written_again(tmp_path: Path, hashed: bool) -> None:
    """As `verify --offline` says: assembled again, a snapshot is whole. Who has other ways to digests is asked."""
    store = LocalStore(tmp_path)
    whole = publish(store)
    file = tmp_path / "one" / "state" / "part-00000.parquet"
    asked: list[str] = []

    def own(there: Manifest) -> list[FileEntry]:
        asked.append(there.id)
        return [FileEntry(path=path, bytes=4, sha256=store.sha256(path)) for path in store.files_of(there)]

    for change in ("rowz", None):
        if change is None:
            (file.parent / "part-00001.parquet").write_text("somebody else's")
        else:
            file.write_text(change)
        assert publish(store, hashed=own if hashed else None) == whole
        assert [path.name for path in file.parent.iterdir()] == [file.name]
        assert file.read_text() == "rows"
    assert asked == (["one"] * 2 if hashed else [])


def test_listed_in_the_order_of_epochs(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number, name in enumerate(("c", "a", "b")):
        manifest = dataclasses.replace(publish(store, snapshot_id=name), epoch=number)
        store.manifest_path(name).write_text(manifests.dump(manifest))
    (tmp_path / "other.json").write_text('{"not": "ours"}')
    assert [manifest.id for manifest in store.list()] == ["c", "a", "b"]


def test_a_broken_manifest_is_said(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / "one.json").write_text("{")
    with pytest.raises(BadInputError, match=r"one\.json"):
        store.read("one")
    (tmp_path / "one.json").write_bytes(b"\xff{}")
    with pytest.raises(BadInputError, match=r"one\.json"):
        store.read("one")


UNFINISHED_ID = f"one.tmp-{'0' * 32}"


@pytest.mark.parametrize("ids", [("one", "one.json"), ("one.json", "one"), (UNFINISHED_ID, "one")])
def test_an_id_that_looks_like_another_ones_file_spoils_nothing(tmp_path: Path, ids: tuple[str, str]) -> None:
    store = LocalStore(tmp_path)
    published = [publish(store, snapshot_id=snapshot_id) for snapshot_id in ids]
    (tmp_path / "backup.json").mkdir()
    assert [store.read(snapshot_id) for snapshot_id in ids] == published
    assert {manifest.id for manifest in store.list()} == set(ids)
    assert all(len(store.files_of(manifest)) == 1 for manifest in published)
    assert not store.leftovers(older_than_s=0)
