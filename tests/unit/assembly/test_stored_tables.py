"""Stored tables: `verify --tables` names a row that differs from that of the log, with its place; keys that lie in
several partitions are named."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.assembly import compare, split_keys
from snapkafka.checks import CutView, Finding, Status, witness_of
from snapkafka.errors import StorageError
from snapkafka.manifest import CheckEntry
from snapkafka.protocol import TopicPartition
from tests.worlds import cleaned_log
from tests.worlds.cleaned_log import Changelog
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
    stored, computed = in_files(tmp_path / "s", {}), in_files(tmp_path / "c", {})
    pq.write_table(pa.table({"app": ["a"]}), tmp_path / "s" / "state" / "part-00000.parquet")
    with pytest.raises(StorageError):
        compare(stored, computed, PROVEN)


# -- keys in several partitions --------------------------------------------------------------------------------


def of_table(folder: Path, *keys: Iterable[str], **changes: Any) -> list[Finding]:
    """What is found in a table of such keys, by partition."""
    tps = [TopicPartition("totals-changelog", partition) for partition in range(len(keys))]
    cut = cleaned_log.captured([Changelog(tp, 7) for tp in tps])
    facts: dict[str, Any] = {"app": "bank", "table": "totals", "keyed": True} | changes
    view = CutView(replace(cut, changelogs=tuple(replace(one, **facts) for one in cut.changelogs)))
    rows = [
        {**in_state(key, "v", table="totals", partition=tp.partition), "changelog_topic": tp.topic}
        | {"changelog_offset": offset}
        for tp, of in zip(tps, keys, strict=True)
        for offset, key in enumerate(of)
    ]
    return split_keys.find(view, in_files(folder, {"state": rows}))


def test_a_table_is_named_with_its_keys_and_their_partitions(tmp_path: Path) -> None:
    """A key that would break a line is shown as bytes."""
    (finding,) = of_table(tmp_path / "one", ["ann", "bob"], ["cid"], ["bob", "cid", "dan"])
    assert witness_of(finding).what == (
        "table totals of bank: 2 keys lie in several partitions: bob (0, 2), cid (1, 2); each row holds a part of the "
        "key's value: its events come from several partitions"
    )
    assert (finding.topic, finding.partition, finding.offset) == ("totals-changelog", 2, 0)
    (finding,) = of_table(tmp_path / "other", ["a\nb"], ["a\nb"])
    assert ": 0x610a62 (0, 1);" in witness_of(finding).what


@pytest.mark.parametrize(
    ("keys", "changes"),
    [((["ann"], ["bob"]), {}), ((["ann"], ["ann"]), {"keyed": False}), ((["ann"],), {})],
    ids=["each in one", "not keyed", "one partition"],
)
def test_nobody_else_is_accused(tmp_path: Path, keys: tuple[list[str], ...], changes: dict[str, Any]) -> None:
    assert of_table(tmp_path, *keys, **changes) == []
