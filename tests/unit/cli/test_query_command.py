"""`query` on a terminal: SQL from a file, results into a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from snapkafka.cli.verbs import app
from snapkafka.errors import OutputError
from snapkafka.store import LocalStore
from tests.worlds.on_disk import write_snapshot

SQL = "SELECT topic, partition FROM positions ORDER BY ALL"


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "snapshots")
    write_snapshot(made, "one", 10)
    return made


def query(store: LocalStore, *arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app, ["query", "--storage", store.uri, *arguments], input=typed)


def test_sql_is_an_argument_a_file_or_standard_input(store: LocalStore, tmp_path: Path) -> None:
    file = tmp_path / "positions.sql"
    file.write_text(SQL)
    found = query(store, SQL, "--csv")
    assert found.exit_code == 0
    assert found.stdout.startswith("topic,partition\n")
    assert query(store, "-f", str(file), "--csv").stdout == found.stdout
    assert query(store, "-f", "-", "--csv", typed=SQL).stdout == found.stdout


def test_a_file_gets_all_rows_as_csv_or_json(store: LocalStore, tmp_path: Path) -> None:
    rows = "SELECT range AS n FROM range(100)"
    lines, objects = tmp_path / "rows.csv", tmp_path / "rows.json"
    done = query(store, rows, "-o", str(lines))
    assert (done.exit_code, lines.read_text()) == (0, "n\n" + "".join(f"{n}\n" for n in range(100)))
    assert "100 rows" in done.stdout
    assert query(store, rows, "-o", str(objects)).exit_code == 0
    assert json.loads(objects.read_text()) == [{"n": n} for n in range(100)]


def test_a_file_that_cannot_be_written_is_named(store: LocalStore) -> None:
    with pytest.raises(OutputError, match=r"/nowhere/rows\.csv cannot be written: No such file"):
        raise query(store, "SELECT 1", "-o", "/nowhere/rows.csv").exception or AssertionError


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "the SQL is missing"),
        (("SELECT 1", "-f", "x.sql"), "SQL and -f cannot be combined"),
        (("-f", "/nowhere.sql"), "/nowhere.sql cannot be read"),
        (("SELECT 1", "-o", "rows.xlsx"), "must end in .csv or .json"),
        (("SELECT 1", "-o", "rows.csv", "--json"), "cannot be combined"),
    ],
)
def test_what_makes_no_sense_is_one_line(store: LocalStore, arguments: tuple[str, ...], problem: str) -> None:
    done = query(store, *arguments)
    assert done.exit_code not in (0, 1)
    assert problem in " ".join(done.output.split())
