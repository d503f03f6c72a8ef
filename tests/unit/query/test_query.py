"""`snapkafka query`: SQL on assembled snapshots, with nothing but their files."""

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from snapkafka import manifest as manifests
from snapkafka import ops
from snapkafka.assembly import columns, comment
from snapkafka.errors import (
    BadInputError,
    DependencyMissingError,
    InternalError,
    SnapkafkaError,
    StorageError,
    TimedOutError,
    UnknownSnapshotError,
)
from snapkafka.protocol import Verdict
from snapkafka.query import sandbox
from snapkafka.query import sql as query_sql
from snapkafka.query.locate import find_manifest
from snapkafka.query.sql import named_in
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.service_world import until
from tests.worlds.stores import LocalStore

BOUNDS = ops.Bounds(seconds=60, memory_mb=64)
TABLES = ("channels", "messages", "positions", "processes", "state")
HELLO = {
    "topic": "credits",
    "offset": 7,
    "key_raw": b"\xff\x00",
    "headers": [{"key": "trace", "value": b"\x01"}],
    "timestamp": datetime(2026, 5, 1, 12, 30),
    "value": "\x1b[31m[red]",
}


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three snapshots, of which the last is not good, in a folder whose name means something to a glob."""
    store = LocalStore(tmp_path_factory.mktemp("of=[all]*"))
    running = [{"agent": "a", "topic": "credits", "partition": 0, "offset": 6}]
    write_snapshot(store, "monday", 10, state=[in_state("x", "1")])
    write_snapshot(
        store,
        "tuesday/noon",
        20,
        verdict="VERIFIED_WITH_REPLAYS",
        state=[in_state("x", "2"), in_state("y", "3")],
        messages=[HELLO],
        processes=[{"process": 3, "running": running}],
    )
    write_snapshot(store, "broken", 30, verdict="INCONSISTENT", state=[in_state("x", "9")])
    return str(store.root)


@pytest.fixture
def copied(storage: str, tmp_path: Path) -> str:
    """The same snapshots, for a test that changes them."""
    return str(shutil.copytree(storage, tmp_path, dirs_exist_ok=True))


async def chosen(storage: str, name: str = "latest", namespace: str = "") -> str:
    """The snapshot whose tables a query reads."""
    return (await ops.query(None, namespace, "FROM state", storage=storage, name=name)).id


async def rows(storage: str, sql: str, **options: Any) -> list[tuple[Any, ...]]:
    found = await ops.query(None, "", sql, storage=storage, **options)
    return [tuple(row.values()) for row in found.rows]


# -- which snapshot ------------------------------------------------------------------------------------------


async def test_the_tables_of_the_latest_good_one_are_there(storage: str) -> None:
    found = await ops.query(None, "", "SELECT key, value FROM state ORDER BY key", storage=storage)
    assert (found.id, found.epoch, found.verdict) == ("tuesday/noon", 20, "VERIFIED_WITH_REPLAYS")
    assert found.columns == ("key", "value")
    assert found.rows == ({"key": "x", "value": "2"}, {"key": "y", "value": "3"})
    assert not found.more
    assert [row[0] for row in await rows(storage, "SHOW TABLES")] == sorted([*TABLES, "in_flight"])
    for table in TABLES:
        assert [row[0] for row in await rows(storage, f"DESCRIBE {table}")] == [*columns(table)]


async def test_several_at_once_by_their_ids(storage: str) -> None:
    sql = """
    SELECT now.value, before.value, odd.value FROM state AS now
    JOIN monday.state AS before USING (key) JOIN "tuesday/noon" . state AS odd USING (key)
    """
    with sandbox.Tables() as tables:
        assert await rows(storage, "SELECT 1", tables=tables) and (compared := tables.trust)
        assert await rows(storage, sql, tables=tables) == [("2", "1", "2")] and tables.trust != compared
    with pytest.raises(BadInputError, match="friday"):
        await rows(storage, "FROM friday.state")


async def test_all_snapshots_of_a_storage_at_once(storage: str) -> None:
    """Also the one whose tables need no schema, once; beside the views of a name."""
    sql = "SELECT snapshot_id, epoch, verdict, key, value FROM all_state ORDER BY epoch, key"
    expected = [
        ("monday", 10, "VERIFIED", "x", "1"),
        ("tuesday/noon", 20, "VERIFIED_WITH_REPLAYS", "x", "2"),
        ("tuesday/noon", 20, "VERIFIED_WITH_REPLAYS", "y", "3"),
        ("broken", 30, "INCONSISTENT", "x", "9"),
    ]
    options: list[dict[str, Any]] = [{}, {"bounds": BOUNDS}, {"name": "monday"}]
    for more in options:
        assert await rows(storage, sql, **more) == expected, more
    sql = "SELECT a.snapshot_id, a.topic FROM All_Messages a, monday.state AS m WHERE m.value = '1'"
    assert await rows(storage, sql) == [("tuesday/noon", "credits")]
    found = await rows(storage, "SELECT column_name FROM (DESCRIBE all_messages)")
    assert [name for (name,) in found] == ["snapshot_id", "epoch", "verdict", *columns("messages")]


async def test_all_snapshots_may_have_any_names(tmp_path: Path) -> None:
    """Those that DuckDB has itself, and those that differ in case alone."""
    names = ["main", "Monday", "monday", "pg_catalog", "snapshot 0", "last"]
    for epoch, name in enumerate(names, 1):
        write_snapshot(LocalStore(tmp_path), name, epoch, state=[in_state("a", name)])
    sql = "SELECT snapshot_id, value FROM all_state ORDER BY epoch"
    assert await rows(str(tmp_path), sql) == [(name, name) for name in names]
    assert await rows(str(tmp_path), f"SELECT value FROM state WHERE 0 < (SELECT count(*) FROM ({sql}))") == [
        ("last",)
    ]


async def test_more_snapshots_than_a_query_may_open_are_refused(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_sql, "SNAPSHOTS_MAX", 2)
    with pytest.raises(BadInputError, match=r"\b3\b.*\b2\b"):
        await rows(storage, "SELECT * FROM all_state")
    assert await rows(storage, "SELECT count(*) FROM state") == [(2,)], "others are not concerned"


async def test_each_column_is_described(storage: str) -> None:
    sql = "SELECT comment FROM duckdb_columns() WHERE table_name = '{}' AND schema_name = 'main'"
    for table in TABLES:
        found = [text for (text,) in await rows(storage, sql.format(table))]
        assert found == [comment(table, column) for column in columns(table)]
        assert all(found), table
    found = [text for (text,) in await rows(storage, f"{sql.format('all_state')} AND 1 = 1 -- all_state")]
    assert found[0] == "the snapshot"
    assert all(found)


async def test_the_ledger_says_where_the_latest_good_one_lies(storage: str) -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    for name, verdict in (("monday", "VERIFIED"), ("broken", "INCONSISTENT"), ("none", "")):
        taken = await ops.trigger(cluster, "ns", snapshot_id=name, wait=True)
        if verdict:
            path = str(LocalStore(Path(storage)).manifest_path(name))
            cluster.the_ledger.put(Verdict(n=taken.epoch, epoch=taken.epoch, verdict=verdict, manifest=path))
    found = await ops.query(cluster, "ns", "FROM state")
    assert found.id == "monday"
    assert (await ops.query(cluster, "ns", "FROM state", name="broken")).id == "broken"
    with pytest.raises(UnknownSnapshotError):  # it is looked for where the one before lies
        await ops.query(cluster, "ns", "FROM state", name="none")
    with pytest.raises(StorageError):
        await ops.query(None, "ns", "FROM state")


async def test_epochs_are_those_of_one_namespace(copied: str) -> None:
    write_snapshot(LocalStore(Path(copied)), "other", 25, namespace="tills", state=[in_state("x", "4")])
    for name in ("latest", "20"):
        with pytest.raises(BadInputError) as raised:
            await chosen(copied, name)
        assert raised.value.facts == {"namespaces": ["shop", "tills"]}
    assert await chosen(copied, namespace="shop") == "tuesday/noon"
    for name, namespace in (("20", "tills"), ("latest", "none")):
        with pytest.raises(UnknownSnapshotError, match=namespace):
            await chosen(copied, name, namespace)


async def test_a_ledger_that_was_made_anew_begins_with_low_epochs_and_has_the_latest(copied: str) -> None:
    store = LocalStore(Path(copied))
    for name, epoch in (("anew", 3), ("again", 10)):
        write_snapshot(store, name, epoch, state=[in_state("x", "5")])
        reported = store.read(name)
        anew = dataclasses.replace(reported.ledger, topic_id="1" * 32)
        later = dataclasses.replace(reported.times, assembled_at="2026-05-02T00:00:00+00:00")
        changed = dataclasses.replace(reported, ledger=anew, times=later)
        store.manifest_path(name).write_text(manifests.dump(changed))
    assert find_manifest(store, "latest").id == find_manifest(store, "latest", good=True).id == "again"
    assert [await chosen(copied, name) for name in ("3", "20")] == ["anew", "tuesday/noon"]
    with pytest.raises(BadInputError) as raised:
        await chosen(copied, "10")
    assert raised.value.facts == {"ids": ["monday", "again"]}


async def test_the_latest_is_found_among_what_is_no_manifest_or_was_written_by_others(copied: str) -> None:
    folder = Path(copied)
    for name, content in (
        ("list", b"[1]"),
        ("text", b"none"),
        ("bytes", b"\xff"),
        ("other", b'{"id": "other", "epoch": "x", "namespace": "", "verdict": ""}'),
        ("a copy", (folder / "monday.json").read_bytes()),
    ):
        (folder / f"{name}.json").write_bytes(content)
    path = LocalStore(folder).manifest_path("tuesday/noon")
    path.write_text(json.dumps(json.loads(path.read_text())))
    assert await chosen(copied) == "tuesday/noon"


# -- values --------------------------------------------------------------------------------------------------


async def test_the_state_of_an_incremental_one_is_the_whole(tmp_path: Path) -> None:
    """Also where another snapshot is named, and in a `diff`."""
    store, here = LocalStore(tmp_path), str(tmp_path)
    full = write_snapshot(store, "full", 1, state=[in_state(key, "1") for key in "xyz"])
    changed = [{**in_state("x", "8"), "deleted": False}]
    gone = [{**in_state("y", ""), "value": None, "value_raw": None, "deleted": True}]
    first = write_snapshot(store, "first", 2, parent=full, state_delta=changed + gone)
    write_snapshot(store, "second", 3, parent=first, state_delta=[{**in_state("y", "9"), "deleted": False}])
    whole = [("x", "8"), ("y", "9"), ("z", "1")]
    assert await rows(here, "SELECT key, value FROM state ORDER BY key") == whole
    assert await rows(here, "SELECT key FROM first.state ORDER BY key") == [("x",), ("z",)]
    assert await rows(here, "SELECT key FROM state_delta") == [("y",)]
    assert len(await rows(here, "SELECT snapshot_id, key FROM all_state")) == 8
    (table,) = (await ops.diff(None, "", "full", "second", storage=here)).tables
    assert (table.added, table.changed, table.removed) == (0, 2, 0)


async def test_values_are_as_json_has_them(storage: str) -> None:
    sql = 'SELECT "offset", key_raw, headers, timestamp, key, running FROM messages, processes'
    headers = [{"key": "trace", "value": "01"}]
    running = [{"agent": "a", "topic": "credits", "partition": 0, "offset": 6}]
    assert await rows(storage, sql) == [(7, "ff00", headers, "2026-05-01T12:30:00+00:00", None, running)]
    sql = "SELECT 'nan'::DOUBLE, 0.5::FLOAT, 1.50::DECIMAL(4, 2), DATE '2026-05-01', uuid() IS NULL, sum(2::BIGINT)"
    assert await rows(storage, sql) == [("nan", 0.5, "1.50", "2026-05-01", False, 2)]
    assert json.dumps(await rows(storage, "SELECT uuid(), INTERVAL 1 DAY, now()"))
    sql = "SELECT TIMESTAMPTZ '2026-05-01 12:30:00+02:00'"
    assert await rows(storage, sql) == [("2026-05-01T10:30:00+00:00",)]


async def test_columns_of_the_same_name_all_come_back_and_no_more_rows_than_are_wanted(storage: str) -> None:
    found = await ops.query(None, "", "SELECT 1 AS a, 2 AS a_1, 3 AS a", storage=storage)
    assert found.rows == ({"a": 1, "a_1": 2, "a_2": 3},)
    for wanted, more in ((2, True), (3, False), (4, False)):
        found = await ops.query(None, "", "FROM range(3)", storage=storage, rows_max=wanted)
        assert (len(found.rows), found.more) == (min(wanted, 3), more)


# -- what it refuses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", 'Parser Error: syntax error at or near "SELEC"'),
        ("SELECT * FROM stat", 'Catalog Error: Table with name stat does not exist! Did you mean "state"?'),
        ("SELECT CAST(value AS INT) FROM messages", "Conversion Error: Could not convert string"),
        ("SELECT ?", "Values were not provided"),
        ("SELECT offset FROM messages", "syntax error"),
    ],
)
async def test_bad_sql_is_one_line_of_what_duckdb_said(storage: str, sql: str, said: str) -> None:
    with pytest.raises(BadInputError) as raised:
        await rows(storage, sql)
    assert said in raised.value.message
    assert "LINE 1" not in raised.value.message
    assert "\n" not in raised.value.message
    assert '"offset"' in raised.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "/* nothing */ ;",
        "COPY (SELECT 1) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}' (FORMAT parquet, USE_TMP_FILE false)",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW state",
        "ATTACH '{file}.db'",
        "SET lock_configuration = false",
        "INSTALL httpfs",
        "SELECT 1; SELECT 2",
    ],
)
async def test_what_is_not_one_select_is_refused(storage: str, sql: str) -> None:
    file = Path(storage) / "monday" / "state" / "part-00000.parquet"
    before = file.read_bytes()
    with pytest.raises(BadInputError):
        await rows(storage, sql.format(file=file), name="monday")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "source",
    [
        "read_csv('/etc/passwd')",
        "read_text('{storage}/monday.json')",
        "'{storage}/monday/state/part-00000.parquet'",
        "glob('/*')",
        "read_parquet('https://127.0.0.1:1/x.parquet')",
        "duckdb_secrets(), read_text('/proc/self/environ')",
        "storage",
    ],
)
async def test_no_other_file_and_no_variable_of_ours_is_seen(storage: str, source: str) -> None:
    with pytest.raises(
        BadInputError, match=r"disabled by configuration|Table with name storage does not exist"
    ):
        await rows(storage, f"FROM {source.format(storage=storage)}")


async def test_without_duckdb_the_extra_is_named(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(DependencyMissingError, match="duckdb") as raised:
        await rows(storage, "SELECT 1")
    assert "query]" in raised.value.hint


@pytest.mark.parametrize("bounds", [None, BOUNDS])
async def test_who_gives_up_ends_the_query(storage: str, bounds: ops.Bounds | None) -> None:
    """This one would take hours; the test ends when its engine has."""
    sql = "SELECT sum(sin(a.range * b.range)) FROM range(1000000) a, range(1000000) b"
    before = {*psutil.Process().children()}  # of other tests
    for seconds in (0.5, 0):  # it may not have started yet
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(seconds):
                await rows(storage, sql, bounds=bounds)
    assert {*psutil.Process().children()} <= before


async def test_with_bounds_it_runs_in_a_process_of_its_own(storage: str) -> None:
    """Whose answers and errors are the same."""
    place = LocalStore(Path(storage)).manifest_place("monday")
    for sql in (
        "SELECT key, value FROM state",
        'SELECT "x", 1 AS "x" FROM (SELECT 2 AS "x")',
        'SELECT * FROM "tuesday/noon".state',
    ):
        apart = await ops.query(None, "", sql, manifest=place, bounds=BOUNDS)
        assert apart == await ops.query(None, "", sql, manifest=place), sql
    for wrong in ("nonsense", "COPY (SELECT 1) TO 'x'", "SELECT * FROM nowhere"):
        with pytest.raises(BadInputError) as here:
            await ops.query(None, "", wrong, manifest=place)
        with pytest.raises(BadInputError) as there:
            await ops.query(None, "", wrong, manifest=place, bounds=BOUNDS)
        assert (there.value.message, there.value.hint) == (here.value.message, here.value.hint)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", ["0", '"', "a ", '"a', "a.", '""'])
def test_names_of_snapshots_are_found_in_a_time_that_grows_with_the_sql(storage: str, piece: str) -> None:
    """One request must not hold up the service; by its square, this would take many minutes."""
    store = LocalStore(Path(storage))
    sql = f'SELECT * FROM "tuesday/noon".state, monday . state -- {piece * 50_000}'
    found = store.read("monday")
    assert set(named_in(sql, store, found)) == {"main", "monday", "tuesday/noon"}


ENDLESS = """
import asyncio, sys
from snapkafka import ops
endless = ops.query(
    None, "", "SELECT count(*) FROM range(10000000000000)", manifest=sys.argv[1],
    bounds=ops.Bounds(seconds=600, memory_mb=64),
)
asyncio.run(endless)
"""


def test_it_ends_with_a_process_that_is_killed(storage: str) -> None:
    """Also while the engine computes: the query begins when the memory of its process is bounded."""
    command = [sys.executable, "-c", ENDLESS, LocalStore(Path(storage)).manifest_place("monday")]
    asking = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    begun: list[psutil.Process] = []

    def bounded() -> bool:
        below = psutil.Process(asking.pid).children(recursive=True)
        begun[:] = (it for it in below if it.rlimit(psutil.RLIMIT_DATA)[0] != psutil.RLIM_INFINITY)
        return bool(begun)

    try:
        until(bounded, "the query to begin", sandbox.APART_START_S)
        before = begun[0].cpu_times().user
        until(lambda: begun[0].cpu_times().user > before + 0.5, "the query to run")
        asking.kill()
        until(lambda: not runs(begun[0]), "its process to end")
    finally:
        asking.kill()
        asking.wait()
        for child in begun:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def runs(process: psutil.Process) -> bool:
    """Whether it is alive: one that has ended may wait for whoever it has fallen to."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.mark.parametrize(
    ("begins", "error"),
    [("raise SystemExit(3)", InternalError), ("import time; time.sleep(60)", TimedOutError)],
)
async def test_a_process_that_does_not_begin_is_no_fault_of_the_query(
    storage: str, monkeypatch: pytest.MonkeyPatch, begins: str, error: type[SnapkafkaError]
) -> None:
    monkeypatch.setattr(sandbox, "APART", (sys.executable, "-c", begins))
    monkeypatch.setattr(sandbox, "APART_START_S", 1.0 if error is TimedOutError else 60.0)
    place = LocalStore(Path(storage)).manifest_place("monday")
    with pytest.raises(error):
        await ops.query(None, "", "SELECT 1", manifest=place, bounds=BOUNDS)
