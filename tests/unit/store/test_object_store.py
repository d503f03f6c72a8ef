"""Snapshots in object storage, on a real S3 server, by what is no Spark: publishing, reading, removing, failing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import verbs as commands
from snapkafka.demo import wait_until
from snapkafka.errors import BadInputError, DependencyMissingError, StorageError, UnknownSnapshotError
from snapkafka.manifest import Manifest, state_table
from snapkafka.manifest_entries import FileEntry
from snapkafka.ops import pruning
from snapkafka.store import (
    LocalStore,
    RemoteFolder,
    objects,
    open_manifest,
    open_store,
    reaching,
    written_down,
)
from snapkafka.store.objects import ObjectStore
from snapkafka.store.uri import canonical
from tests.servers.s3 import EmbeddedS3
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.throttling import Throttle

A_DAY: float = 86_400


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedS3]:
    with EmbeddedS3() as running:
        yield running


@pytest.fixture(autouse=True)
def environment(server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(objects, "JITTER_S", 0.0)


@pytest.fixture
def store(server: EmbeddedS3, request: pytest.FixtureRequest) -> ObjectStore:
    """Below a prefix of a bucket of its own."""
    name = "".join(letter for letter in request.node.name.lower() if letter.isalnum())[-60:]
    return opened(f"{server.make_bucket(name)}/of/snapshots")


def opened(uri: str) -> ObjectStore:
    store = open_store(uri)
    assert isinstance(store, ObjectStore)
    return store


def put(store: ObjectStore, path: str, content: bytes = b"rows") -> None:
    store._fs.pipe_file(store._path(path), content)


def names(store: ObjectStore) -> list[str]:
    return sorted(store._found(""))


def manifest_of(
    folder: RemoteFolder, snapshot_id: str, content: str, text: str = "rows", epoch: int = 7
) -> Manifest:
    digest = hashlib.sha256(text.encode()).hexdigest()
    file = FileEntry(path=f"{folder.path}/state/part-0.parquet", bytes=len(text), sha256=digest)
    table = dataclasses.replace(example().tables[0], path=f"{folder.path}/state", files=(file,))
    captured = dataclasses.replace(example().captured, id=snapshot_id, epoch=epoch, parent="")
    return dataclasses.replace(
        example(), id=snapshot_id, epoch=epoch, content=content, tables=(table,), captured=captured
    )


def publish(store: ObjectStore, content: str = "c", text: str = "rows", snapshot_id: str = "one") -> Manifest:
    with store.staging(snapshot_id) as folder:
        put(store, f"{folder.path}/state/part-0.parquet", text.encode())
        return store.publish(manifest_of(folder, snapshot_id, content, text), folder)


def copied(local: LocalStore, manifest: Manifest, store: ObjectStore) -> None:
    """A snapshot of a folder, in a bucket."""
    with store.staging(manifest.id) as folder:
        tables = []
        for table in manifest.tables:
            path = f"{folder.path}/{table.name}"
            files = []
            for file in table.files:
                place = f"{path}/{Path(file.path).name}"
                put(store, place, (local.root / file.path).read_bytes())
                files.append(dataclasses.replace(file, path=place))
            tables.append(dataclasses.replace(table, path=path, files=tuple(files)))
        store.publish(dataclasses.replace(manifest, tables=tuple(tables)), folder)


# -- publishing -----------------------------------------------------------------------------------------------


def test_tables_and_manifest_appear_together_and_the_uri_is_as_it_was_given(store: ObjectStore) -> None:
    made = publish(store)
    (file,) = made.tables[0].files
    assert names(store) == ["one.json", file.path]
    assert [manifest.id for manifest in store.list()] == ["one"]
    assert store.manifest_place("one") == f"{store.uri}/one.json"
    again, name = open_manifest(f"{store.uri.replace('s3a:', 's3:')}/one.json")
    assert again.uri.startswith("s3://"), "as it was given"
    assert again.text(name) == store.text("one.json")
    assert again.spark_uri("x").startswith("s3a://"), "as Spark says it"
    with pytest.raises(UnknownSnapshotError):
        store.read("two")


def test_who_fails_leaves_nothing(store: ObjectStore) -> None:
    def fail() -> None:
        with store.staging("one") as folder:
            put(store, f"{folder.path}/state/part-0.parquet")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(store) == []


def test_the_same_rows_again_leave_the_files_alone(store: ObjectStore) -> None:
    first = publish(store)
    assert publish(store, text="rows, in another order").tables == first.tables
    assert names(store) == ["one.json", first.tables[0].files[0].path]


def test_changed_files_get_a_manifest_that_names_others(store: ObjectStore) -> None:
    old = publish(store)
    put(store, old.tables[0].files[0].path, b"rowz")
    new = publish(store)
    assert new.tables != old.tables
    assert store.read("one").tables == new.tables


def test_other_rows_get_a_manifest_that_names_them_alone(store: ObjectStore) -> None:
    """What the old one named stays for whoever reads it right now, and goes when it is old."""
    old, new = publish(store), publish(store, content="d", text="others")
    assert store.read("one").tables == new.tables != old.tables
    assert store.files_of(new) == [new.tables[0].files[0].path], "what another assembly left is no part of it"
    assert store.leftovers(older_than_s=A_DAY) == []
    (left,) = store.leftovers(older_than_s=-60)
    assert f"{left.name}/state/part-0.parquet" == old.tables[0].files[0].path
    store.clear(left)
    assert names(store) == ["one.json", new.tables[0].files[0].path]


def test_two_at_once_do_not_spoil_each_other(store: ObjectStore) -> None:
    def many(name: str) -> None:
        for n in range(4):
            publish(store, content=f"{name}{n}", text=name * (n + 1))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(many, name) for name in "abc"]:
            done.result()
    (file,) = store.read("one").tables[0].files
    with store.open(file.path) as opened_file:
        text = opened_file.read().decode()
    assert (len(text), len(set(text))) == (file.bytes, 1)
    assert store.read("one").content == f"{text[0]}{len(text) - 1}"


def test_a_manifest_that_somebody_else_has_put_meanwhile_is_looked_at_again(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same rows, and each would have put its own: the files of the one that was first stay."""
    look = ObjectStore._info
    others: list[Manifest] = []
    looked: list[str] = []

    def late(self: ObjectStore, path: str) -> Any:
        seen = look(self, path)
        looked.append(path)
        if looked == ["one.json"]:
            others.append(publish(store))
        return seen

    with store.staging("one") as folder:
        put(store, f"{folder.path}/state/part-0.parquet")
        monkeypatch.setattr(ObjectStore, "_info", late)
        mine = store.publish(manifest_of(folder, "one", "c"), folder)
    (other,) = others
    assert mine.tables == other.tables == store.read("one").tables


def test_a_killed_assembly_leaves_what_nobody_sees_and_a_later_one_removes(store: ObjectStore) -> None:
    code = (
        "import os, sys\n"
        "from snapkafka.store import open_store\n"
        "store = open_store(sys.argv[1])\n"
        "with store.staging('one') as folder:\n"
        "    store._fs.pipe_file(store._path(f'{folder.path}/state/part-0.parquet'), b'half')\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, store.uri], timeout=60)
    (left,) = names(store)
    assert store.list() == []
    publish(store)
    assert left in names(store), "nobody can tell a dead writer from a slow one"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects, "LEFTOVER_AFTER_S", -60.0)
        publish(store)
    assert left not in names(store)


# -- asking ---------------------------------------------------------------------------------------------------


async def test_query_diff_verify_and_prune(store: ObjectStore, tmp_path: Path) -> None:
    local = LocalStore(tmp_path)
    monday = write_snapshot(local, "monday", 1, state=[in_state("a", "1"), in_state("b", "2")])
    tuesday = write_snapshot(
        local, "tuesday", 2, parent=monday, state_delta=[{**in_state("a", "9"), "deleted": False}]
    )
    for manifest in (monday, tuesday):
        copied(local, manifest, store)
    found = await ops.query(None, "", "SELECT key, value FROM state ORDER BY key", storage=store.uri)
    assert found.rows == ({"key": "a", "value": "9"}, {"key": "b", "value": "2"})
    named = await ops.query(
        None, "", 'SELECT count(*) AS n FROM "monday".state', manifest=store.manifest_place("tuesday")
    )
    assert named.rows == ({"n": 2},)
    (change,) = (await ops.diff(None, "", "monday", "tuesday", storage=store.uri)).tables
    assert (change.changed, change.unchanged) == (1, 1)
    broken = state_table(store.read("monday")).files[0]
    with store.open(broken.path) as file:
        put(store, broken.path, file.read()[::-1])
    for name in ("monday", "tuesday"):
        examined = await ops.verify_offline(name, storage=store.uri)
        found_in = {item.file for item in examined.damage if item.what.startswith("has changed")}
        assert found_in == {broken.path}, "tuesday builds on monday"
    policy = ops.Policy(last=1)
    planned = await ops.plan_pruning(store.uri, policy)
    assert planned.removed == (), "tuesday builds on monday"


async def test_prune_removes_what_it_may_and_nothing_else(store: ObjectStore) -> None:
    publish(store, snapshot_id="old")
    new = publish(store, snapshot_id="new", content="d")
    text = store.text("new.json")
    assert text is not None
    put(store, "new.json", text.replace('"epoch": 7', '"epoch": 8').encode())
    put(store, "mine.txt")
    put(store, "old/README")
    planned = await ops.plan_pruning(store.uri, ops.Policy(last=1))
    assert [(item.id, item.foreign) for item in planned.removed] == [("old", ("old/README",))]
    await ops.prune(store.uri, ops.Policy(last=1), planned)
    assert names(store) == ["mine.txt", "new.json", new.tables[0].files[0].path, "old/README"]


def folders(store: ObjectStore) -> list[str]:
    """The empty objects in the place of folders."""
    return sorted(path for path in store._found("", folders=True) if path.endswith("/"))


def put_folders(store: ObjectStore, run: str) -> None:
    """What Hadoop's S3A leaves, and its committer if it is killed."""
    for path in (f"{run}/", f"{run}/state/", f"{run}/state/__magic_job-1/tasks/"):
        bucket, _, key = store._path(path).partition("/")
        store._fs.call_s3("put_object", Bucket=bucket, Key=key, Body=b"")


async def test_prune_removes_what_stands_in_the_place_of_folders(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a snapshot; and alone, where a job was killed before its first file or `prune` after the last one."""
    for snapshot_id, content in (("old", "c"), ("new", "d")):
        made = publish(store, snapshot_id=snapshot_id, content=content)
        put_folders(store, made.tables[0].path.rpartition("/")[0])
    text = store.text("new.json")
    assert text is not None
    put(store, "new.json", text.replace('"epoch": 7', '"epoch": 8').encode())
    killed = f"gone/run-{'a' * 32}"
    put_folders(store, killed)
    put_folders(store, "mine")
    policy = ops.Policy(last=1)
    planned = await ops.plan_pruning(store.uri, policy)
    assert planned.leftovers == (), "somebody may be at work there"
    monkeypatch.setattr(pruning, "LEFTOVER_AFTER_S", -10.0)
    planned = await ops.plan_pruning(store.uri, policy)
    assert [(left.name, left.bytes) for left in planned.leftovers] == [(killed, 0)]
    await ops.prune(store.uri, policy, planned)
    kept = made.tables[0].path.rpartition("/")[0]
    assert {path for path in folders(store) if not path.startswith("mine/")} == {
        f"{kept}/",
        f"{kept}/state/",
        f"{kept}/state/__magic_job-1/tasks/",
    }
    assert len(folders(store)) == 6, "those that we did not write stay"


async def test_verify_offline_finds_damage(store: ObjectStore) -> None:
    made = publish(store)
    (file,) = made.tables[0].files
    put(store, f"{made.tables[0].path}/more.parquet")
    store._delete([file.path])
    found = await ops.verify_offline("one", storage=store.uri)
    reported = {item.file: item.what for item in found.damage}
    assert {file.path, f"{made.tables[0].path}/more.parquet"} <= reported.keys()


async def test_a_query_reads_the_files_of_its_snapshots_alone(store: ObjectStore, tmp_path: Path) -> None:
    local = LocalStore(tmp_path)
    copied(local, write_snapshot(local, "monday", 1, state=[in_state("a", "1")]), store)
    put(store, "secret.parquet")
    for path in ("secret.parquet", "monday.json"):
        with pytest.raises(BadInputError, match="disabled by configuration"):
            await ops.query(None, "", f"SELECT * FROM read_text('{store.place(path)}')", storage=store.uri)


# -- many at once ---------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_hundred_writers_at_once_against_a_server_that_throttles(
    server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "JITTER_S", 0.5)
    bucket = server.make_bucket("crowd")
    with Throttle(server.endpoint, per_second=60) as throttle:
        monkeypatch.setenv("AWS_ENDPOINT_URL", throttle.endpoint)
        store = opened(bucket)

        def write(number: int) -> str:
            folder = RemoteFolder(path=f"{number}/run-{number:032x}", uri="")
            return store.publish(manifest_of(folder, str(number), "c", "x"), folder).id

        with ThreadPoolExecutor(100) as pool:
            done = set(pool.map(write, range(100)))
    assert len(done) == 100
    assert throttle.answers[503] > 0, "or nothing was shown"
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
    assert len(opened(bucket).texts()) == 100


def allow_after_a_refusal(throttle: Throttle) -> None:
    wait_until("a first refusal", lambda: throttle.answers[503] > 0, timeout_s=20, period_s=0.01)
    throttle.allow(1_000)


def test_a_question_whose_answer_has_no_text_is_asked_again_too(
    server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers HEAD without a body: nothing in it says SlowDown."""
    monkeypatch.setattr(reaching, "ATTEMPTS_MAX", 1)
    bucket = server.make_bucket("heads")
    with Throttle(server.endpoint, per_second=0) as throttle:
        monkeypatch.setenv("AWS_ENDPOINT_URL", throttle.endpoint)
        store = opened(bucket)
        soon = threading.Thread(target=allow_after_a_refusal, args=(throttle,))
        soon.start()
        assert store.size("not-there.json") is None
        soon.join()
    assert throttle.answers[503] > 0, "or nothing was shown"


def test_a_server_that_never_stops_asking_is_said(
    server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "ATTEMPTS_MAX", 1)
    with Throttle(server.endpoint, per_second=0) as throttle:
        monkeypatch.setenv("AWS_ENDPOINT_URL", throttle.endpoint)
        with pytest.raises(StorageError, match=r"\(503\)"):
            opened("s3a://crowd/x").check_writable()
    assert throttle.answers.keys() == {503}


def test_writers_that_begin_at_the_same_moment_do_not_write_at_the_same_moment(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(objects, "JITTER_S", 0.5)
    # Its own `sleep` alone: other threads sleep too.
    monkeypatch.setattr(objects, "time", SimpleNamespace(sleep=waited.append))
    for number in range(20):
        folder = RemoteFolder(path=f"{number}/run-{number:032x}", uri="")
        store.publish(manifest_of(folder, str(number), "c", "x"), folder)
    assert all(0 <= seconds <= 0.5 for seconds in waited)
    assert len(set(waited)) == 20
    assert max(waited) > 0.25 > min(waited)


# -- what goes wrong ------------------------------------------------------------------------------------------


def call(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, arguments)


def failing(*arguments: str) -> tuple[int, dict[str, str]]:
    started = time.monotonic()
    done = call(*arguments, "--json")
    assert time.monotonic() - started < 60
    return done.exit_code, json.loads(done.stdout)["error"]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("environ", "bucket"),
    [
        ({}, "no-such-bucket"),
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "rights"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:{port}"}, "away"),
        ({"AWS_PROFILE": "nobody"}, "profile"),
    ],
)
def test_a_storage_that_cannot_be_reached_is_said_in_a_line(
    environ: dict[str, str], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "ATTEMPTS_MAX", 2)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(port=unused_port()))
    for arguments in (["query", "SELECT 1"], ["prune", "--keep-last", "1"]):
        status, error = failing(*arguments, "--storage", f"s3a://{bucket}/x")
        assert status == 8
        assert f"s3a://{bucket}/x" in error["message"]
        assert error["hint"]
    with pytest.raises(StorageError, match=bucket):
        opened(f"s3a://{bucket}/x").check_writable()


def test_without_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(StorageError, match="s3a://bucket/x"):
        opened("s3a://bucket/x").texts()


@pytest.mark.parametrize(("scheme", "library"), [("s3a", "s3fs"), ("gs", "gcsfs")])
def test_without_its_library_that_is_said(scheme: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, scheme, raising=False)
    with pytest.raises(DependencyMissingError, match=f"{scheme}://bucket"):
        open_store(f"{scheme}://bucket/x")


def test_a_library_of_the_systems_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libjvm for `hdfs://`."""

    def without(*_: object, **__: object) -> None:
        raise OSError("Unable to load libjvm")

    monkeypatch.setattr("fsspec.core.url_to_fs", without)
    with pytest.raises(DependencyMissingError, match=r"hdfs://box/x.*Unable.*libjvm"):
        open_store("hdfs://box/x")


def test_a_prefix_that_spark_would_not_find_again_is_refused_before_any_work(store: ObjectStore) -> None:
    with pytest.raises(StorageError, match=r"/a\[1\]"):
        opened(f"{store.uri}/a[1]").check_writable()
    store.check_writable()


def test_commands_start_without_it() -> None:
    code = (
        "import sys, snapkafka.cli.verbs; sys.exit(bool({'fsspec', 's3fs', 'botocore'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


async def test_a_storage_with_a_secret_in_it_is_not_written_into_the_ledger() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    before = len(cluster.the_ledger.entries)
    with pytest.raises(StorageError) as refused:
        await ops.trigger(cluster, "shop", storage="s3a://me:hidden@bucket/x")
    assert "hidden" not in str(refused.value)
    assert len(cluster.the_ledger.entries) == before


@pytest.mark.parametrize(
    "uri", ["s3://me:hidden@bucket/x", "https://me:hidden@host/x", "file://me:hidden@host/x"]
)
def test_a_secret_in_a_uri_is_in_no_error(uri: str) -> None:
    with pytest.raises(StorageError) as refused:
        open_store(uri)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("uri", ["s3://[x", "s3://me:hidden@a\u2100b/x", "file://[x/y", "//[x"])
@pytest.mark.parametrize("use", [open_store, canonical, written_down])
def test_a_uri_that_cannot_be_split_is_reported_without_what_it_holds(
    use: Callable[[str], Any], uri: str
) -> None:
    with pytest.raises(StorageError) as refused:
        use(uri)
    assert "hidden" not in str(refused.value)


def test_region_and_endpoint_are_those_of_amazons_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert reaching.options("s3a")["client_kwargs"] == {"region_name": "eu-west-1"}
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://there")
    assert reaching.endpoint() == "http://there"
    assert reaching.options("gs") == {}
