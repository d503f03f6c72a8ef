"""Snapshots in a folder and in object storage, on a real S3 server: whole or not at all."""

import contextlib
import dataclasses
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import BadInputError, DependencyMissingError, StorageError, UnknownSnapshotError
from snapkafka.manifest import FileEntry, Manifest
from snapkafka.ops import pruning
from snapkafka.query.locate import heads
from snapkafka.store import Store, open_manifest, open_store, remote_files, written_down
from snapkafka.store import store as stores
from snapkafka.store.uri import canonical
from snapkafka.testing import wait_until
from tests.servers.s3 import EmbeddedS3
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.stores import LocalStore
from tests.worlds.throttling import Throttle

FILE = "state/part-00000.parquet"


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedS3]:
    with EmbeddedS3() as running:
        yield running


@pytest.fixture
def environment(server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(stores, "JITTER_S", 0.0)


@pytest.fixture
def bucket(server: EmbeddedS3, environment: None, request: pytest.FixtureRequest) -> Store:
    """Below a prefix of a bucket of its own."""
    name = "".join(letter for letter in request.node.name.lower() if letter.isalnum())[-60:]
    return open_store(f"{server.make_bucket(name)}/of/snapshots")


@pytest.fixture(params=["local", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    found: Store = LocalStore(tmp_path) if request.param == "local" else request.getfixturevalue("bucket")
    return found


def names(store: Store) -> list[str]:
    return [info.path for info in store.files.list("")]


def manifest_of(folder: str, snapshot_id: str, content: str, text: str = "rows") -> Manifest:
    file = FileEntry(
        path=f"{folder}/{FILE}", bytes=len(text), rows=1, sha256=sha256(text.encode()).hexdigest()
    )
    table = dataclasses.replace(example().tables[0], path=f"{folder}/state", files=(file,))
    captured = dataclasses.replace(example().captured, id=snapshot_id, epoch=7, parent="")
    changes: dict[str, Any] = {"content": content, "tables": (table,), "captured": captured}
    return dataclasses.replace(example(), id=snapshot_id, epoch=7, **changes)


def publish(store: Store, content: str = "c", text: str = "rows", snapshot_id: str = "one") -> Manifest:
    """A snapshot with one table of one file."""
    with store.staging(snapshot_id) as folder:
        store.write(f"{folder}/{FILE}", text.encode())
        return store.publish(manifest_of(folder, snapshot_id, content, text), folder)


def text_of(store: Store) -> str:
    """What the file of the snapshot holds."""
    (file,) = store.read("one").tables[0].files
    text = b"".join(store.files.pieces(file.path)).decode()
    assert len(text) == file.bytes
    return text


# -- publishing -----------------------------------------------------------------------------------------------


def test_an_assembly_appears_whole_or_not_at_all_and_the_one_before_stays_for_its_readers(
    store: Store,
) -> None:
    """A file that no table names goes before the manifest appears: a task that was done twice has left it."""
    store.check_writable()
    with contextlib.suppress(RuntimeError), store.staging("one") as folder:
        store.write(f"{folder}/{FILE}", b"half")
        raise RuntimeError
    assert names(store) == []
    with store.staging("one") as folder:
        for path in (FILE, f"{FILE}.again"):
            store.write(f"{folder}/{path}", b"rows")
        old = store.publish(manifest_of(folder, "one", "c"), folder)
    assert names(store) == ["one.json", f"{folder}/{FILE}"]
    assert store.read("one") == old
    again, name = open_manifest(store.manifest_place("one"))
    assert again.text(name) == store.text("one.json")
    with pytest.raises(UnknownSnapshotError):
        store.read("two")
    new = publish(store, content="d", text="others")
    assert (store.read("one").content, text_of(store)) == ("d", "others")
    assert store.files_of(new) == [new.tables[0].files[0].path], "what another assembly left is no part of it"
    assert f"{folder}/{FILE}" in names(store)


def test_a_file_that_cannot_be_written_whole_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as raised:
        LocalStore(tmp_path).write("one.json", b"half")
    assert isinstance(raised.value.__cause__, OSError) and raised.value.__cause__.errno == errno.ENOSPC
    assert names(LocalStore(tmp_path)) == []


def test_two_at_once_do_not_spoil_each_other(store: Store) -> None:
    """Who comes in between is refused by name; the manifest that stays names the files that stay."""
    times = 40 if isinstance(store, LocalStore) else 4

    def many(name: str) -> None:
        for n in range(times):
            with contextlib.suppress(StorageError):
                publish(store, content=f"{name}{n}", text=name * (n + 1))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(many, name) for name in "abc"]:
            done.result()
    text = text_of(store)
    assert len(set(text)) == 1
    assert store.read("one").content == f"{text[0]}{len(text) - 1}"


KILLED = """
import os, sys
from snapkafka.store import open_store

store = open_store(sys.argv[1])
with store.staging("one") as folder:
    store.write(f"{folder}/state/part-00000.parquet", b"half")
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_assembly_leaves_is_not_listed_and_goes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, store.uri], timeout=60)
    (left,) = names(store)
    assert heads(store) == []
    publish(store)
    assert left in names(store), "nobody can tell a dead writer from a slow one"
    monkeypatch.setattr(stores, "LEFTOVER_AFTER_S", -60.0)
    publish(store)
    assert left not in names(store)


def test_a_manifest_that_somebody_else_has_put_meanwhile_stays(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, others, looked = store.files.read, list[Manifest](), list[str]()

    def late(path: str) -> Any:
        seen = read(path)
        looked.append(path)
        if looked == ["one.json"]:
            others.append(publish(store))
        return seen

    def publish_late() -> None:
        with store.staging("one") as folder:
            store.write(f"{folder}/{FILE}", b"rows")
            monkeypatch.setattr(store.files, "read", late)
            store.publish(manifest_of(folder, "one", "c"), folder)

    with pytest.raises(StorageError, match="another assembly"):
        publish_late()
    assert [store.read("one")] == others
    assert names(store) == ["one.json", others[0].tables[0].files[0].path]


@pytest.mark.parametrize("ids", [("one", "one.json"), ("one.json", "one"), (f"one.tmp-{'0' * 32}", "one")])
def test_an_id_that_looks_like_another_ones_file_spoils_nothing(tmp_path: Path, ids: tuple[str, str]) -> None:
    store = LocalStore(tmp_path)
    published = [publish(store, snapshot_id=snapshot_id) for snapshot_id in ids]
    (tmp_path / "backup.json").mkdir()
    assert [store.read(snapshot_id) for snapshot_id in ids] == published
    assert {manifest.id for manifest in heads(store)} == set(ids)
    assert not store.leftovers(older_than_s=0)


# -- asking and removing --------------------------------------------------------------------------------------


async def test_in_a_bucket_a_snapshot_is_queried_and_damage_is_found(bucket: Store, tmp_path: Path) -> None:
    local = LocalStore(tmp_path)
    monday = write_snapshot(local, "monday", 1, state=[in_state("a", "1"), in_state("b", "2")])
    delta = [{**in_state("a", "9"), "deleted": False}]
    for manifest in (monday, write_snapshot(local, "tuesday", 2, parent=monday, state_delta=delta)):
        for file in (file for table in manifest.tables for file in table.files):
            bucket.write(file.path, (local.root / file.path).read_bytes())
        bucket.publish(manifest, manifest.id)
    found = await ops.query(None, "", "SELECT key, value FROM state ORDER BY key", storage=bucket.uri)
    assert found.rows == ({"key": "a", "value": "9"}, {"key": "b", "value": "2"})
    bucket.write("secret.parquet", b"rows")
    for path in ("secret.parquet", "monday.json"):
        with pytest.raises(BadInputError, match="disabled by configuration"):
            await ops.query(None, "", f"FROM read_text('{bucket.place(path)}')", storage=bucket.uri)
    damaged = bucket.read("monday").tables
    bucket.write(damaged[0].files[0].path, b"rows")
    bucket.files.delete([damaged[1].files[0].path])
    bucket.write(f"{damaged[1].path}/more.parquet", b"rows")
    examined = await ops.verify_offline("monday", storage=bucket.uri)
    assert {damaged[0].files[0].path, damaged[1].files[0].path, f"{damaged[1].path}/more.parquet"} <= {
        item.file for item in examined.damage
    }
    planned = await ops.plan_pruning(bucket.uri, ops.Policy(last=1))
    assert planned.removed == (), "tuesday builds on monday"


async def test_prune_removes_what_it_may(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = publish(store, snapshot_id="old"), publish(store, snapshot_id="new", content="d")
    text = store.text("new.json")
    assert text is not None
    store.write("new.json", text.replace('"epoch": 7', '"epoch": 8').encode())
    killed = f"gone/run-{'a' * 32}"
    for path in ("mine.txt", "old/README", f"{killed}/{FILE}"):
        store.write(path, b"rows")
    policy = ops.Policy(last=1)
    assert (await ops.plan_pruning(store.uri, policy)).leftovers == (), "somebody may be at work there"
    monkeypatch.setattr(pruning, "LEFTOVER_AFTER_S", -10.0)
    planned = await ops.plan_pruning(store.uri, policy)
    assert [item.id for item in planned.removed] == ["old"]
    assert planned.removed[0].bytes == old.tables[0].files[0].bytes + len(store.text("old.json") or "")
    assert [(left.name, left.bytes) for left in planned.leftovers] == [(killed, 4)]
    await ops.prune(store.uri, policy, planned)
    assert names(store) == ["mine.txt", "new.json", new.tables[0].files[0].path, "old/README"]


# -- many at once ---------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_hundred_writers_at_once_against_a_server_that_throttles(
    server: EmbeddedS3, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "JITTER_S", 0.5)
    place = server.make_bucket("crowd")
    with Throttle(server.endpoint, per_second=60) as throttle:
        monkeypatch.setenv("AWS_ENDPOINT_URL", throttle.endpoint)
        store = open_store(place)

        def write(number: int) -> str:
            folder = f"{number}/run-{number:032x}"
            return store.publish(manifest_of(folder, str(number), "c"), folder).id

        with ThreadPoolExecutor(100) as pool:
            done = set(pool.map(write, range(100)))
    assert len(done) == 100
    assert throttle.answers[503] > 0, "or nothing was shown"
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert len(open_store(place).texts()) == 100


def test_a_server_that_asks_to_be_spared_is_asked_again_or_named(
    server: EmbeddedS3, environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers HEAD without a body: nothing in it says SlowDown."""
    monkeypatch.setattr(remote_files, "RETRIES_MAX", 0)
    place = server.make_bucket("heads")
    with Throttle(server.endpoint, per_second=0) as throttle:
        monkeypatch.setenv("AWS_ENDPOINT_URL", throttle.endpoint)
        with pytest.raises(StorageError, match=r"\(503\)"):
            open_store(f"{place}/x").check_writable()
        assert throttle.answers.keys() == {503}
        monkeypatch.setattr(remote_files, "RETRIES_MAX", 10)
        before = throttle.answers[503]

        def allow_after_a_refusal() -> None:
            wait_until("a refusal", lambda: throttle.answers[503] > before, timeout_s=20, period_s=0.01)
            throttle.allow(1_000)

        soon = threading.Thread(target=allow_after_a_refusal)
        soon.start()
        assert open_store(place).size("not-there.json") is None
        soon.join()


def test_writers_that_begin_at_the_same_moment_do_not_write_at_the_same_moment(
    bucket: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(stores, "JITTER_S", 0.5)
    # Its own `sleep` alone: other threads sleep too.
    monkeypatch.setattr(stores, "time", SimpleNamespace(sleep=waited.append))
    for number in range(10):
        folder = f"{number}/run-{number:032x}"
        bucket.write(f"{folder}/{FILE}", b"rows")
        bucket.publish(manifest_of(folder, str(number), "c"), folder)
    assert all(0 <= seconds <= 0.5 for seconds in waited)
    assert len(set(waited)) == 20
    assert max(waited) > 0.25 > min(waited)


# -- what goes wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({}, "no-such-bucket"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "rights"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:{port}"}, "away"),
        ({"AWS_PROFILE": "nobody", "AWS_ACCESS_KEY_ID": ""}, "profile"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "without"),
    ],
)
async def test_a_storage_that_cannot_be_reached_is_named(
    environ: dict[str, str], name: str, environment: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote_files, "RETRIES_MAX", 1)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # and does not listen
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value.format(port=probe.getsockname()[1]))
            if not value:
                monkeypatch.delenv(variable)
        uri = f"s3a://{name}/x"
        with pytest.raises(StorageError, match=uri):
            await ops.query(None, "", "SELECT 1", storage=uri)
        with pytest.raises(StorageError, match=uri):
            await ops.plan_pruning(uri, ops.Policy(last=1))
        with pytest.raises(StorageError, match=name):
            open_store(uri).check_writable()


def test_unwritable_is_said_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="below"):
        LocalStore(tmp_path / "file" / "below").check_writable()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_without_its_library_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    with pytest.raises(DependencyMissingError, match="s3a://bucket"):
        open_store("s3a://bucket/x")


def test_paths_and_uris_are_the_same(tmp_path: Path, bucket: Store) -> None:
    folder = tmp_path / "a place"
    for given in (str(folder), folder.as_uri()):
        assert str(open_store(given)) == str(folder)
    assert open_store(folder.as_uri()).uri == folder.as_uri()
    again, _ = open_manifest(f"{bucket.uri.replace('s3a:', 's3:')}/one.json")
    assert again.uri.startswith("s3://"), "as it was given"


SECRET = ("s3a://me:hidden@bucket/x", "file://me:hidden@host/x")
NO_URI = ("s3://[x", "s3://me:hidden@a\u2100b/x", "file://[x/y", "//[x", "file:/x")


@pytest.mark.parametrize(
    ("use", "uri"),
    [
        *((use, uri) for use in (open_store, written_down) for uri in SECRET + NO_URI),
        *((canonical, uri) for uri in NO_URI),
    ],
)
def test_a_secret_in_a_uri_is_in_no_error_and_not_written_down(use: Callable[[str], Any], uri: str) -> None:
    with pytest.raises(StorageError) as refused:
        use(uri)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "uri", ["s3a://b/x*", "s3a://b/[x", "s3a:///x", "https://host/x", "file://elsewhere/x", ""]
)
def test_a_place_that_cannot_be_used_is_refused(uri: str) -> None:
    with pytest.raises(StorageError):
        open_store(uri)


@pytest.mark.parametrize(("name", "beside"), [("b*c", "bXc"), ("b?c", "bXc"), ("b[X]c", "bXc"), ("**", "a")])
async def test_a_folder_whose_name_is_a_pattern_is_that_folder_alone(
    tmp_path: Path, name: str, beside: str
) -> None:
    """Nothing of one that the pattern matches is read or removed."""
    own, foreign = LocalStore(tmp_path / name), LocalStore(tmp_path / beside)
    for store, value in ((own, "mine"), (foreign, "theirs")):
        full = write_snapshot(store, "one", 1, state=[in_state("x", value), in_state("y", value)])
        write_snapshot(store, "two", 2, parent=full, state_delta=[{**in_state("x", value), "deleted": False}])
    before = names(foreign)
    sql = "SELECT DISTINCT value FROM state UNION ALL SELECT DISTINCT value FROM one.state"
    for bounds in (None, ops.Bounds(seconds=60, memory_mb=200)):
        found = await ops.query(None, "", sql, storage=str(own.root), name="two", bounds=bounds)
        assert [row["value"] for row in found.rows] == ["mine", "mine"]
    (table,) = (await ops.diff(None, "", "one", "two", storage=str(own.root))).tables
    assert (table.added, table.changed, table.removed) == (0, 0, 0)
    assert (await ops.verify_offline("two", storage=str(own.root))).damage == ()
    policy = ops.Policy(last=1)
    own.files.delete(["two.json"])
    write_snapshot(own, "three", 3, state=[in_state("x", "new")])
    await ops.prune(str(own.root), policy, await ops.plan_pruning(str(own.root), policy))
    assert "three.json" in names(own) and "one.json" not in names(own)
    assert names(foreign) == before
