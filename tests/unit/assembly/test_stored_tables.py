"""`verify --tables`: a row that differs from that of the log is named, with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.assembly import compare, in_folder
from snapkafka.checks import Status
from snapkafka.errors import StorageError
from snapkafka.manifest import CheckEntry
from tests.worlds.on_disk import in_state
from tests.worlds.tables import in_files

PROVEN: Final = [CheckEntry(name=name, status=Status.PASSED) for name in ("V3", "V4")]
ROW: Final[dict[str, Any]] = {**in_state("x", "1"), "changelog_topic": "log", "changelog_offset": 7}
HEADERS: Final = {"headers": [{"key": "h", "value": None}], "headers_text": [("b", "2"), ("a", None)]}
MESSAGE: Final[dict[str, Any]] = {"receiver_app": "a", "topic": "in", "partition": 0, "offset": 3, **HEADERS}


def outcome(folder: Path, stored: dict[str, list[dict[str, Any]]], proven: bool = True) -> CheckEntry:
    computed = {"state": [ROW, ROW | {"key": None, "key_raw": None}], "messages": [MESSAGE]}
    log = in_files(folder / "c", computed)
    return compare(in_files(folder / "s", computed | stored), log, PROVEN if proven else ())


def test_the_same_rows_in_another_order_are_the_same(tmp_path: Path) -> None:
    other = MESSAGE | {"headers_text": [*reversed(MESSAGE["headers_text"])]}
    rows = {"state": [ROW | {"key": None, "key_raw": None}, ROW], "messages": [other]}
    assert outcome(tmp_path, rows) == CheckEntry(name="tables", status=Status.PASSED)


@pytest.mark.parametrize(
    ("rows", "proven", "status", "found"),
    [
        ([ROW | {"value_raw": b"2"}], True, Status.FAILED, 3),
        ([ROW | {"value_raw": b"2"}], False, Status.UNVERIFIABLE, 3),
        ([ROW | {"value": "2"}, ROW | {"key": None, "key_raw": None}], True, Status.UNVERIFIABLE, 2),
        ([ROW, ROW, ROW | {"key": None, "key_raw": None}], True, Status.FAILED, 1),
        ([], True, Status.FAILED, 2),
    ],
)
def test_rows_that_differ_are_counted_and_named(
    tmp_path: Path, rows: list[dict[str, Any]], proven: bool, status: Status, found: int
) -> None:
    """Other bytes contradict the log, if that still shows all of the table; other texts of the same bytes do not."""
    one = outcome(tmp_path, {"state": rows}, proven)
    assert (one.status, one.found) == (status, found)
    assert {(it.topic, it.partition, it.offset) for it in one.witnesses} == {("log", 0, 7)}


def test_a_table_with_another_column_cannot_be_read(tmp_path: Path) -> None:
    in_files(tmp_path / "s", {})
    pq.write_table(pa.table({"app": ["a"]}), tmp_path / "s" / "state" / "part-00000.parquet")
    tables = in_files(tmp_path / "c", {})
    with pytest.raises(StorageError):
        compare(in_folder(tmp_path / "s"), tables, PROVEN)
