"""The three golden snapshots: how their files were made. `python -m tests.golden --snapshots` makes them again.

`friday` is VERIFIED and full. `saturday` builds on it: windows, a set and a deleted key are among its rows. `sunday` is
INCONSISTENT. Parquet files differ from one release of DuckDB to the next, so they are made seldom and checked in.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from snapkafka.manifest import Manifest, content_digest, dump
from snapkafka.manifest_entries import (
    AppendedEntry,
    CheckEntry,
    InvariantEntry,
    LedgerEntry,
    Times,
    TopicEntry,
    WitnessEntry,
)
from snapkafka.protocol import (
    Captured,
    ChangelogCut,
    InputCut,
    Position,
    ProcessCut,
    Recorded,
    Running,
    SenderEnd,
)
from snapkafka.store import LocalStore
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import Row, in_channel, in_state, write_snapshot

FOLDER: Final = Path(__file__).parent / "snapshots"
NOON_MS: Final = 1_777_636_800_000
NOON: Final = datetime.fromtimestamp(NOON_MS / 1_000, UTC).replace(tzinfo=None)
CHECKED: Final = {"V1": 1_200, "V2": 1_200, "V3": 40, "V4": 1_160, "V5": 1_200, "V6 money": None}


def make_snapshots(folder: Path = FOLDER) -> None:
    """Write the snapshots into an empty folder, in the place of those that lie there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = LocalStore(folder)
    state = [_kept("ann", "10"), _kept("bob", "20", partition=1), _kept("eve", "30")]
    friday = _write(store, "friday", 100, state=state)
    _write(store, "saturday", 200, parent=friday, verdict="VERIFIED_WITH_REPLAYS", state_delta=_changed())
    _write(store, "sunday", 300, verdict="INCONSISTENT", state=state[:2])
    for lock in folder.glob("*.lock"):
        lock.unlink()


def _changed() -> list[Row]:
    """Return what changed since `friday`: a window, a table of sets, an undecoded key, and a deleted one."""
    window = _kept("page", "3", table="visits") | {
        "window_start": NOON,
        "window_end": NOON + timedelta(seconds=59.9),
    }
    blob = _kept("", "", table="blobs") | {
        "key": None,
        "value": None,
        "key_raw": b"\xff\x00",
        "value_raw": b"\x01",
    }
    gone = _kept("bob", "", partition=1) | {"value": None, "value_raw": None, "deleted": True}
    rows = [
        _kept("ann", "12"),
        gone,
        window,
        _kept("vip", '["ann","eve"]', table="groups"),
        blob | {"why_undecoded": "key is not UTF-8"},
    ]
    return [{"deleted": False} | row for row in rows]


def _kept(key: str, value: str, **more: Any) -> dict[str, Any]:
    """Return a row of state with the place of its record in the changelog."""
    return {**in_state(key, value, **more), "changelog_topic": "bank-changelog", "changelog_offset": 9}


def _write(store: LocalStore, name: str, epoch: int, **reported: Any) -> Manifest:
    """Write a snapshot with all of its tables and a manifest that says all that a manifest can."""
    written = write_snapshot(
        store,
        name,
        epoch,
        messages=[_message(epoch)],
        channels=[in_channel("to-pay", 1, 7, sender=3), in_channel("credits", 0, 0, sender=2)],
        processes=[_process(number, epoch) for number in (2, 3)],
        positions=[
            {"app": "bank", "agent": "pay", "topic": "to-pay", "partition": 0, "position": 3, "process": 2}
        ],
        around=_around(),
        **reported,
    )
    parent = written.parents[-1].id if written.parents else ""
    appended = [AppendedEntry(offset=epoch + n, at_ms=NOON_MS + epoch + 5 * n) for n in (2, 3, 12, 13)]
    manifest = dataclasses.replace(
        written,
        attempt=1,
        content=content_digest(written.tables, written.parents),
        captured=_captured(name, epoch, parent),
        ledger=LedgerEntry(
            topic="_snapkafka.shop",
            topic_id="ab" * 16,
            triggered_ms=NOON_MS + epoch,
            appended=tuple(appended),
        ),
        times=Times(assembled_at=f"2026-05-0{epoch // 100}T12:00:00.000+00:00", seconds={"tables": 1.5}),
        checks=tuple(_check(check, records, written.verdict) for check, records in CHECKED.items()),
        invariants=(InvariantEntry(name="money", sql="SELECT 1 WHERE 1 = 2"),),
        topics=(TopicEntry(name="to-pay", topic_id="ab", partitions=1, settings={"retention.ms": "1"}),),
        read=(dataclasses.replace(example().read[0], topic="to-pay"),),
        logs=(dataclasses.replace(example().logs[0], topic="to-pay"),),
    )
    Path(store.manifest_place(name)).write_text(dump(manifest), "utf-8")
    return manifest


def _message(epoch: int) -> Row:
    return {
        "sender": 3,
        "sender_app": "till",
        "receiver_app": "bank",
        "topic": "to-pay",
        "partition": 0,
        "offset": 3,
        "seq": 3,
        "key": "ann",
        "value": json.dumps({"amount": epoch}),
        "key_raw": b"ann",
        "value_raw": json.dumps({"amount": epoch}).encode(),
        "headers": [{"key": "trace", "value": b"\x01"}],
        "timestamp": NOON,
        "timestamp_ms": NOON_MS,
        "timestamp_type": "CreateTime",
    }


def _process(number: int, epoch: int) -> Row:
    running = [{"agent": "pay", "topic": "to-pay", "partition": 0, "offset": 2}]
    return {
        "process": number,
        "app": "bank" if number == 2 else "till",
        "host": "box",
        "pid": 40 + number,
        "left": False,
        "previous": 0,
        "heard": "ledger",
        "report": epoch + number,
        "closed": epoch + 10 + number,
        "triggered_at": NOON,
        "cut_us": 90,
        "running": running if number == 2 else [],
    }


def _around() -> list[Row]:
    """Return records on both sides of the cut: 1 and 2 were received, 3 is in flight, 4 was sent after it."""
    sides = [
        (None, 0, "external", True),
        (3, 1, "white", True),
        (3, 2, "white", True),
        (3, 3, "white", False),
    ]
    sides.append((3, 4, "red", False))
    return [
        {
            "sender": sender,
            "sender_app": None if sender is None else "till",
            "receiver": 2,
            "receiver_app": "bank",
            "topic": "to-pay",
            "partition": 0,
            "offset": offset,
            "seq": offset,
            "side": side,
            "received": received,
            "sent_ms": NOON_MS + offset,
            "key": "ann",
            "value": "1",
        }
        | ({"cause_topic": "to-pay", "cause_partition": 0, "cause_offset": offset - 1} if offset > 2 else {})
        for sender, offset, side, received in sides
    ]


def _captured(name: str, epoch: int, parent: str) -> Captured:
    position = Position(agent="pay", topic="to-pay", partition=0, offset=3, started_above=(5,))
    running = Running(agent="pay", topic="to-pay", partition=0, offset=2)
    cut = InputCut(
        app="bank",
        topic="to-pay",
        topic_id="ab",
        partition=0,
        position=3,
        noted=3,
        low=1,
        log_end=5,
        receiver=2,
        agents=(position,),
    )
    return Captured(
        id=name,
        attempt=1,
        epoch=epoch,
        type="incremental" if parent else "full",
        parent=parent,
        storage="",
        processes=(
            ProcessCut(process=1, app="bank", left=True),
            ProcessCut(
                process=2, app="bank", heard="ledger", report=epoch + 2, closed=epoch + 12, running=(running,)
            ),
            ProcessCut(process=3, app="till", heard="header", report=epoch + 3, closed=epoch + 13),
        ),
        inputs=(cut, dataclasses.replace(cut, topic="credits", position=epoch, noted=epoch, agents=())),
        senders=(SenderEnd(process=3, topic="to-pay", partition=0, white_end=4, last_seq=3, marker=4),),
        changelogs=(
            ChangelogCut(
                app="bank",
                table="balances",
                topic="bank-changelog",
                topic_id="cd",
                partition=0,
                end=5,
                process=2,
            ),
        ),
        recorded=(Recorded(app="bank", sender=3, topic="to-pay", partition=0, start=3, end=4),),
    )


def _check(name: str, records: int | None, verdict: str) -> CheckEntry:
    witness = WitnessEntry(
        topic="to-pay", partition=0, offset=4, what="red below the position", process=3, seq=4
    )
    partitions = None if records is None else 2
    passed = CheckEntry(
        name=name, run=True, status="passed", replayed=0, records=records, partitions=partitions
    )
    if name == "V1" and verdict == "INCONSISTENT":
        return dataclasses.replace(passed, status="failed", found=1, witnesses=(witness,))
    if name == "V5" and verdict == "VERIFIED_WITH_REPLAYS":
        note = dataclasses.replace(witness, what="runs again after a restore")
        return dataclasses.replace(passed, noted=1, notes=(note,), replayed=1)
    return passed
