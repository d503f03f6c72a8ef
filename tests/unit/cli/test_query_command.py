"""`query` on a terminal: SQL from a file, results into a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from snapkafka.cli import app
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


def test_a_file_is_written_whole_or_stays_as_it_was(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    there.write_text("of yesterday")
    there.chmod(0o600)
    link.symlink_to(there)

    def no_space(path: Path, data: bytes) -> int:
        with path.open("wb") as file:
            file.write(data[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", no_space)
        assert isinstance(query(store, SQL, "-o", str(there)).exception, OutputError)
    assert there.read_text() == "of yesterday"
    assert query(store, SQL, "-o", str(link)).exit_code == 0
    assert there.read_text().startswith("topic,partition\n")
    assert link.is_symlink()
    assert there.stat().st_mode & 0o777 == 0o600
    assert {it.name for it in tmp_path.iterdir()} == {"rows.csv", "link.csv", "snapshots"}


def test_rows_of_any_type_are_json(store: LocalStore, tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    sql = (
        "SELECT * FROM (VALUES ('\\x00\\xFF'::BLOB, 'nan'::DOUBLE, [1.0, 'inf'::DOUBLE]), (NULL, 1.5, NULL))"
    )
    assert query(store, sql, "-o", str(file)).exit_code == 0

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    found = json.loads(file.read_text(), parse_constant=refused)
    assert [list(row.values()) for row in found] == [["00ff", "nan", [1.0, "inf"]], [None, 1.5, None]]


def test_columns_of_bytes_are_printed_where_there_is_nothing_else(store: LocalStore) -> None:
    bytes_too = "SELECT 'k' AS key, 'ff'::BLOB AS key_raw"
    shown = query(store, bytes_too).stdout
    assert "6666" not in shown
    assert "Not shown: key_raw (bytes; --csv)." in shown
    assert "6666" in query(store, "SELECT 'ff'::BLOB AS key_raw").stdout
    assert "6666" in query(store, bytes_too, "--csv").stdout
