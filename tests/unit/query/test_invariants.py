"""Invariants are found, and their parameters filled in."""

import os
from pathlib import Path

import pytest

from snapkafka.assembly import load
from snapkafka.errors import BadInputError
from snapkafka.manifest import InvariantEntry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.sql").write_text("SELECT * FROM state WHERE value > ${most}")
    (tmp_path / "a.sql").write_text("SELECT '${name:nobody}' WHERE ${most} < 0")
    (tmp_path / "notes.txt").write_text("no SQL")
    for name in ("none", "other", "links", "bytes"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "a.sql").write_text("SELECT 1")
    (tmp_path / "links" / "c.sql").symlink_to(tmp_path / "a.sql")
    (tmp_path / "bytes" / "y.sql").write_bytes(b"\xff")
    return tmp_path


def loaded(where: str, folder: Path, parameters: dict[str, str]) -> tuple[InvariantEntry, ...]:
    return load(where.format(folder=folder).split(), parameters)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("{folder}", ["a", "b"]),
        ("{folder}/b.sql termination", ["b", "termination"]),
        ("{folder} {folder}/none/../a.sql", ["a", "b"]),  # the same twice is one
        ("{folder} {folder}/links", ["a", "b", "c"]),  # a link has its own name
        ("", []),
    ],
)
def test_what_is_read(folder: Path, where: str, names: list[str]) -> None:
    used = {"most": "1"} if names else {}
    more = {"topics": "x,y"} if "termination" in names else {}
    found = loaded(where, folder, used | more)
    assert [one.name for one in found] == names
    assert not more or "'x,y'" in found[1].sql
    filled = {"a": "SELECT 'nobody' WHERE 1 < 0", "b": "SELECT * FROM state WHERE value > 1"}
    assert {one.name: one.sql for one in found if one.name in filled}.items() <= filled.items()


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


@pytest.mark.parametrize(
    ("where", "parameters", "named"),
    [
        ("{folder}", {}, "most"),
        ("{folder}", {"most": "1", "mots": "2"}, "mots"),
        ("{folder}", {"most": "1'; DROP"}, "DROP"),
        ("{folder}/nothing", {}, "/nothing"),
        ("conservatoin", {}, "conservatoin"),
        ("{folder}/none", {}, "/none"),
        ("{folder}/bytes/y.sql", {}, r"y\.sql"),
        ("{folder} {folder}/other/a.sql", {"most": "1"}, r"\ba\b"),  # their outcomes could not be told apart
        # The service fills in what its clients send.
        ("{folder}", {"most": "1 OR java_method(char(65), char(66)) IS NULL"}, "most"),
    ],
)
def test_a_slip_is_named(folder: Path, where: str, parameters: dict[str, str], named: str) -> None:
    with pytest.raises(BadInputError, match=named):
        loaded(where, folder, parameters)
