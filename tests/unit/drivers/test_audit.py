"""The parts of an audit in a worker: the scan, and the rows that it makes."""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

import faust
import msgspec
import pytest

from snapkafka.drivers.faust.audit import READ_WHOLE, Scan, ScannedTable
from snapkafka.wire.audit import digest


@pytest.fixture
def app() -> faust.App:
    made = faust.App("audited", store="memory://", web_enabled=False)
    made.finalize()
    return made


def image(table: Any, *partitions: int) -> ScannedTable:
    table.reads, table.in_place = None, True
    return ScannedTable(table, partitions or (0,), {})


def rows_in(pieces: list[bytes]) -> dict[tuple[int, bytes], bytes]:
    """Table and key -> the digest of the value."""
    found = [row for piece in pieces if piece for row in msgspec.msgpack.decode(zlib.decompress(piece))]
    assert len({(table, key) for table, key, *_ in found}) == len(found), "each key once"
    return {(table, key): value for table, key, value, _ in found}


async def drained(scan: Scan) -> list[bytes]:
    return [piece async for piece in scan.pieces()]


def test_a_table_that_cannot_be_encoded_is_named_and_the_others_are_audited(app: faust.App) -> None:
    good, bad = app.Table("good", default=int), app.Table("bad", default=int)
    good.data.data["a"], bad.data.data["a"] = 1, object()
    scan = Scan([image(bad), image(good)])
    assert rows_in(asyncio.run(drained(scan))) == {(1, b'"a"'): digest(b"1")}
    assert [bool(scanned.failed) for scanned in scan.tables] == [True, False]
    assert "cannot be encoded" in scan.tables[0].failed


@pytest.mark.parametrize(("codec", "found"), [("json", {(0, b'"a"'): digest(b"null")}), ("raw", {})])
def test_none_is_what_the_changelog_has(app: faust.App, codec: str, found: dict[Any, bytes]) -> None:
    """JSON writes `null`; as raw bytes the key is deleted."""
    table = app.Table("t")
    table.value_serializer, table.data.data["a"] = codec, None
    assert rows_in(asyncio.run(drained(Scan([image(table)])))) == found


def test_what_may_be_written_as_different_bytes_is_not_audited(app: faust.App) -> None:
    table = app.Table("p", default=int)
    table.value_serializer = "pickle"
    assert image(table).described.reason


def test_a_scan_has_the_tables_as_they_were_whatever_the_app_does_meanwhile(app: faust.App) -> None:
    """Copy-on-write by hand: what may change in place is encoded before it is handed out."""
    table = app.Table("t", default=list)
    objects = table.data.data
    objects.update({f"k{n}": [n] for n in range(2_000)})
    scan = Scan([image(table)])
    for key in ("k0", "k1999"):
        scan.before_use(table, key)
        objects[key].append("later")
    objects["k5"] = ["assigned"]
    del objects["k6"]
    objects["new"] = [1]
    rows = rows_in(asyncio.run(drained(scan)))
    assert len(rows) == 2_000
    assert {rows[0, b'"k%d"' % n] == digest(b"[%d]" % n) for n in range(2_000)} == {True}


def test_a_table_that_is_read_as_a_whole_is_given_up(app: faust.App) -> None:
    table, other = app.Table("t", default=list), app.Table("o", default=list)
    table.data.data["a"], other.data.data["a"] = [1], [2]
    scan = Scan([image(table), image(other)])
    scan.read_whole(table)
    assert rows_in(asyncio.run(drained(scan))) == {(1, b'"a"'): digest(b"[2]")}
    assert [scanned.failed for scanned in scan.tables] == [READ_WHOLE, ""]


def test_sets_count_by_their_members_and_an_empty_one_not_at_all(app: faust.App) -> None:
    table = app.SetTable("s")
    for key, members in (("a", {"y", "x"}), ("b", set())):
        table.data[key].data = members
    rows = rows_in(asyncio.run(drained(Scan([image(table)]))))
    assert rows == {(0, b'"a"'): digest(b'["x","y"]')}


def test_a_copy_of_a_standby_is_no_part_of_the_table(app: faust.App) -> None:
    table = app.Table("t", default=int)
    table.data.data.update({"a": 1, "b": 2, "c": 3})
    table.data._key_partition.update({"a": 0, "b": 1})
    rows = rows_in(asyncio.run(drained(Scan([image(table, 0)]))))
    assert rows == {(0, b'"a"'): digest(b"1"), (0, b'"c"'): digest(b"3")}


async def test_r15_a_scan_leaves_the_loop_to_others(app: faust.App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("snapkafka.drivers.faust.audit.SLICE_S", 0.0)
    table, turns = app.Table("t", default=int), list[int]()
    table.data.data.update({"a": 1, "b": 2})
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await drained(Scan([image(table)]))
    assert turns
