"""`query` on a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from snapkafka.cli import app
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

SQL = "SELECT topic, partition FROM positions ORDER BY ALL"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "snapshots")
    write_snapshot(made, "one", 10)
    return made


def query(store: LocalStore, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["query", "--storage", store.uri, *arguments])


def test_rows_of_any_type_are_json(store: LocalStore) -> None:
    sql = (
        "SELECT * FROM (VALUES ('\\x00\\xFF'::BLOB, 'nan'::DOUBLE, [1.0, 'inf'::DOUBLE]), (NULL, 1.5, NULL))"
    )
    done = query(store, sql, "--json")
    assert done.exit_code == 0

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(done.stdout, parse_constant=refused)["rows"]
    assert [list(row.values()) for row in found] == [["00ff", "nan", [1.0, "inf"]], [None, 1.5, None]]


def test_columns_of_bytes_are_printed_where_there_is_nothing_else(store: LocalStore) -> None:
    bytes_too = "SELECT 'k' AS key, 'ff'::BLOB AS key_raw"
    shown = query(store, bytes_too).stdout
    assert "6666" not in shown
    assert "Not shown: key_raw (bytes; --csv)." in shown
    assert "6666" in query(store, "SELECT 'ff'::BLOB AS key_raw").stdout
    assert "6666" in query(store, bytes_too, "--csv").stdout


def test_a_terminal_obeys_nothing_that_stands_in_a_topic(store: LocalStore) -> None:
    shown = query(store, "SELECT '\x1b[31m[red]' AS value").stdout
    assert "\x1b" not in shown
    assert r"\x1b[31m[red]" in shown
    assert "... more than 40 rows" in query(store, "FROM range(41)").stdout
