"""The tables made from records at hand: what must never show in them, and records that nobody would send on purpose."""

from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from snapkafka.assembly import rows as rows_of
from snapkafka.assembly.rows import position_rows, process_rows
from snapkafka.checks import CutView, LogRecord
from snapkafka.manifest import AppendedEntry
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, ProcessCut, SenderEnd
from snapkafka.protocol.offsets import Position, TornEvent
from snapkafka.wire import headers as wire
from tests.spark.at_hand import ENTRY, row_of, tables_of
from tests.worlds.little_log import CAPTURED, EPOCH, INPUT

#: Offsets of the markers of `taken`: no table may know of them.
MARKER_SEQ = 5
#: Headers of somebody else, before and behind ours.
OTHERS = [
    {"key": name, "value": value} for name, value in (("trace", b"7"), ("trace", None), ("bytes", b"\xff"))
]
TIMES = {
    "now": 1_700_000_000_000,
    "none": -1,
    "long ago": -62_135_596_800_000,
    "the last": 253_402_300_799_999,
    "past the last": 253_402_300_800_000,
    "absurd": 9_000_000_000_000_000,
}


def captured() -> Captured:
    """One input and three tables: plain, of sets, windowed, all written by process 1 below offset 5."""
    of: dict[str, Any] = {"app": "app", "topic_id": "", "partition": 0, "end": 9, "process": 1}
    kinds = {"plain": {}, "sets": {"sets": True}, "windows": {"windowed": True}}
    changelogs = [ChangelogCut(table=name, topic=name, **of | kind) for name, kind in kinds.items()]
    ends = [SenderEnd(process=1, topic=cut.topic, partition=0, white_end=5, last_seq=4) for cut in changelogs]
    agents = (Position(agent="a", topic="in", partition=0, offset=2),)
    return replace(
        CAPTURED,
        inputs=(replace(INPUT, agents=agents),),
        senders=(CAPTURED.senders[0], *ends),
        changelogs=tuple(changelogs),
        processes=(ProcessCut(process=1, app="app"),),
    )


def row(it: LogRecord, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A row with a time, and headers of somebody else."""
    found = row_of(it, key, value)
    return found | {"timestamp_ms": 1_767_225_600_000, "headers": [*OTHERS[:2], *found["headers"], OTHERS[2]]}


def taken() -> list[dict[str, Any]]:
    """To each topic five white records, a marker, and a red one."""
    rows = []
    keys = {"in": b'"k%d"', "plain": b'"k%d"', "sets": b'[1,"k%d"]', "windows": b'["k%d",[1.0,10.9]]'}
    for topic, key in keys.items():
        rows += [row(LogRecord(topic, 0, n, 1, 0, n), key % n, b"%d" % n) for n in range(5)]
        marker = LogRecord(topic, 0, MARKER_SEQ, 1, EPOCH, MARKER_SEQ, marker=True)
        rows.append(row(marker, wire.marker_key(1), None))
        rows.append(row(LogRecord(topic, 0, 6, 1, EPOCH, 6), key % 6, b"6"))
    return rows


def traces(found: dict[str, list[Any]]) -> list[str]:
    """Where a table shows something of the taking: our header, the key of a marker, or a place where one lies."""

    def ours(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(ours, (*value, *value.values())))
        if isinstance(value, list):
            return any(map(ours, value))
        return wire.HEADER in (value.decode("latin-1") if isinstance(value, bytes) else str(value))

    return [
        f"{name}.{column}"
        for name, rows in found.items()
        for row in rows
        for column, value in row.items()
        if ours(value) or (column in ("offset", "changelog_offset") and value == MARKER_SEQ)
    ]


def test_no_table_has_a_trace_of_the_taking(tmp_path: Path) -> None:
    found = tables_of(tmp_path, CutView(captured()), taken())
    counts = {"state": 15, "messages": 3, "channels": 1, "processes": 1, "positions": 1}
    assert {name: len(rows) for name, rows in found.items()} == counts
    assert traces(found) == []
    assert [row["headers"] for row in found["messages"]] == [OTHERS] * 3, "those of others stay, in order"
    assert {row["why_undecoded"] for row in found["state"]} == {None}


def test_traces_would_be_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Markers taken for records, in each kind of table; our headers left where they were."""
    blind = [
        row | {"headers": row["headers"][:1], "value": b"1"} if row["offset"] == MARKER_SEQ else row
        for row in taken()
    ]
    monkeypatch.setattr(rows_of, "HEADER", "of nobody")
    found = traces(tables_of(tmp_path, CutView(captured()), blind))
    assert {"state.key_raw", "state.changelog_offset", "messages.headers"} <= set(found)
    assert found.count("state.key_raw") == 3, "a plain table, sets, windows"


def in_flight(values: list[bytes]) -> list[dict[str, Any]]:
    return [row(LogRecord("in", 0, n, 1, 0, n), b"k", value) for n, value in enumerate(values, 2)]


def test_times_that_are_none(tmp_path: Path) -> None:
    """No time, and times past what readers of the files can hold, are null; the others are what they were."""
    names = [name.encode() for name in TIMES]
    log = [row | {"timestamp_ms": ms} for row, ms in zip(in_flight(names), TIMES.values(), strict=True)]
    view = CutView(replace(captured(), senders=(replace(CAPTURED.senders[0], white_end=99),)))
    found = {row["value"]: row["timestamp"] for row in tables_of(tmp_path, view, log)["messages"]}
    assert {name: None if at is None else round(at.timestamp() * 1000) for name, at in found.items()} == {
        name: ms if name in ("now", "the last") else None for name, ms in TIMES.items()
    }


def test_messages_in_the_codec_that_their_reader_has(tmp_path: Path) -> None:
    """And where that is JSON or text, anything that is: others write to an input as they like."""
    values = [b64encode(b'{"n":1}'), b"{", b'"text"']
    log, found = in_flight(values), {}
    for n, codec in enumerate(("json|binary", "json", "raw", "")):
        (there := tmp_path / str(n)).mkdir()
        inputs = (replace(captured().inputs[0], value_codec=codec),)
        rows = tables_of(there, CutView(replace(captured(), inputs=inputs)), log)["messages"]
        found[codec] = [row["value"] for row in rows]
    assert found.pop("json|binary") == ['{"n":1}', None, None]
    assert set(map(tuple, found.values())) == {(values[0].decode(), "{", "text")}


def test_torn_events_and_replays_are_in_the_tables() -> None:
    """Who restores a snapshot sees what runs again without reading the manifest."""
    of: dict[str, Any] = {"agent": "count", "topic": "in", "partition": 0, "offset": 7}
    torn = TornEvent(**of, was=3, met=EPOCH, table="counts")
    cut = ProcessCut(process=1, app="app", torn=(torn,))
    source = replace(INPUT, position=7, noted=7, log_end=9, agents=(Position(**of, replay_until=9),))
    view = CutView(replace(CAPTURED, processes=(cut,), inputs=(source,)))
    (process,) = process_rows(view, ENTRY)
    assert process["torn"] == [of | {"was": 3, "met": EPOCH, "table_name": "counts"}]
    (position,) = position_rows(view)
    assert (position["position"], position["replay_until"]) == (7, 9)


def test_times_of_the_ledger_that_nobody_knows_are_null() -> None:
    """A producer may have written what it liked."""
    view = CutView(replace(CAPTURED, processes=(ProcessCut(process=1, app="app", report=EPOCH),)))

    def known(ms: int) -> list[bool]:
        appended = (AppendedEntry(offset=EPOCH, at_ms=ms),)
        (row,) = process_rows(view, replace(ENTRY, triggered_ms=ms, appended=appended))
        return [row["triggered_at"] is not None, row["reported_at"] is not None]

    assert {name: known(ms) for name, ms in TIMES.items()} == {
        name: [name in ("now", "the last")] * 2 for name in TIMES
    }
