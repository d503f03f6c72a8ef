"""Invariants are found, and their parameters filled in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapkafka.assembly import Invariant, load, ready_made
from snapkafka.errors import BadInputError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.sql").write_text("SELECT * FROM state WHERE value > ${most}")
    (tmp_path / "a.sql").write_text("SELECT '${name:nobody}' WHERE ${most} < 0")
    (tmp_path / "x").mkdir()
    (tmp_path / "notes.txt").write_text("no SQL")
    return tmp_path


def test_a_folder_is_read_in_order_and_filled_in(folder: Path) -> None:
    assert load([str(folder)], {"most": "10"}) == (
        Invariant(name="a", sql="SELECT 'nobody' WHERE 10 < 0"),
        Invariant(name="b", sql="SELECT * FROM state WHERE value > 10"),
    )


def test_a_file_and_a_name_will_do(folder: Path) -> None:
    found = load([str(folder / "b.sql"), "termination"], {"most": "1", "topics": "x,y"})
    assert [one.name for one in found] == ["b", "termination"]
    assert "'x,y'" in found[1].sql


def test_the_same_twice_is_one(folder: Path) -> None:
    assert len(load([str(folder), str(folder / "x" / ".." / "a.sql")], {"most": "1"})) == 2


def test_a_link_has_its_own_name(folder: Path) -> None:
    (folder / "c.sql").symlink_to(folder / "a.sql")
    assert [one.name for one in load([str(folder)], {"most": "1"})] == ["a", "b", "c"]


def test_two_of_one_name_are_refused(folder: Path) -> None:
    """Their outcomes could not be told apart."""
    other = folder / "other" / "a.sql"
    other.parent.mkdir()
    other.write_text("SELECT 1")
    with pytest.raises(BadInputError, match=r"\ba\b"):
        load([str(folder), str(other)], {"most": "1"})


@pytest.mark.parametrize(
    "name", ["...sql", ".sql", "a/b?.sql", "a\n.sql", "\x1b[2J.sql", "é" * 120 + ".sql", b"\xff.sql"]
)
def test_a_name_that_no_address_and_no_terminal_shows_is_refused(tmp_path: Path, name: str | bytes) -> None:
    """It is part of the ledger, of metrics and of addresses of the service."""
    path = tmp_path / os.fsdecode(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("SELECT 1 WHERE FALSE")
    for where in (path, path.parent):
        with pytest.raises(BadInputError) as refused:
            load([str(where)], {})
        refused.value.message.encode()


@pytest.mark.parametrize("name", ["no negative.sql", "v2.1-money_für.sql", "+a.sql"])
def test_other_names_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("SELECT 1")
    assert [one.name for one in load([str(tmp_path)], {})] == [name.removesuffix(".sql")]


def test_a_value_calls_no_function(folder: Path) -> None:
    """The service fills in what its clients send: Spark's java_method is one."""
    with pytest.raises(BadInputError, match="most"):
        load([str(folder)], {"most": "1 OR java_method(char(65), char(66)) IS NULL"})


def test_none_are_asked_for() -> None:
    assert load([], {}) == ()


def test_each_ready_made_one_says_what_it_wants() -> None:
    names = ("conservation", "deadlock", "delivered_within", "no_negative", "one_token", "termination")
    assert ready_made() == names
    for name in names:
        (found,) = load([name], {}) if name == "termination" else load([name], _some(name))
        assert "${" not in found.sql
        assert found.sql.startswith("--")


def _some(name: str) -> dict[str, str]:
    if name == "delivered_within":
        return {"seconds": "60"}
    more = {"conservation": {"total": "1"}, "one_token": {"topics": "ring"}}.get(name, {})
    return {"table": "t", **more}


@pytest.mark.parametrize(
    ("where", "parameters", "named"),
    [
        ("{folder}", {}, "most"),
        ("{folder}", {"most": "1", "mots": "2"}, "mots"),
        ("{folder}", {"most": "1'; DROP"}, "DROP"),
        ("{folder}/nothing", {}, "/nothing"),
        ("conservatoin", {}, "conservatoin"),
        ("{folder}/x", {}, r"\*\.sql"),
        ("{folder}/x/y.sql", {}, r"y\.sql"),
    ],
)
def test_a_slip_is_named(folder: Path, where: str, parameters: dict[str, str], named: str) -> None:
    if "y.sql" in where:
        (folder / "x" / "y.sql").write_bytes(b"\xff")
    with pytest.raises(BadInputError, match=named):
        load([where.format(folder=folder)], parameters)
