"""The three snapshots that golden calls read.

`friday` is VERIFIED and full. `saturday` builds on it: windows, a set and a deleted key are among its rows. `sunday` is
INCONSISTENT.
"""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from snapkafka.manifest import CheckEntry, Manifest, Times, WitnessEntry, dump
from tests.worlds.on_disk import Row, in_channel, in_state, read_up_to, write_snapshot
from tests.worlds.stores import LocalStore

NOON: Final = datetime.fromtimestamp(1_777_636_800, UTC).replace(tzinfo=None)
CHECKED: Final = {"V1": 1_200, "V2": 1_200, "V3": 40, "V4": 1_160, "V5": 1_200, "V6 money": None}


def make_snapshots(folder: Path) -> None:
    """Write the snapshots into a folder."""
    store = LocalStore(folder)
    state = [_kept("ann", "10"), _kept("bob", "20", partition=1), _kept("eve", "30")]
    friday = _write(store, "friday", 100, state=state)
    _write(store, "saturday", 200, parent=friday, verdict="VERIFIED_WITH_REPLAYS", state_delta=_changed())
    _write(store, "sunday", 300, verdict="INCONSISTENT", state=state[:2])


def _changed() -> list[Row]:
    """Return what changed since `friday`: a window, a table of sets, an undecoded key, and a deleted one."""
    times = {"window_start": NOON, "window_end": NOON + timedelta(seconds=59.9)}
    blob = {"key": None, "value": None, "key_raw": b"\xff\x00", "value_raw": b"\x01"}
    rows = [
        _kept("ann", "12"),
        _kept("bob", "", partition=1) | {"value": None, "value_raw": None, "deleted": True},
        _kept("page", "3", table="visits") | times,
        _kept("vip", '["ann","eve"]', table="groups"),
        _kept("", "", table="blobs") | blob | {"why_undecoded": "key is not UTF-8"},
    ]
    return [{"deleted": False} | row for row in rows]


def _kept(key: str, value: str, **more: Any) -> dict[str, Any]:
    """Return a row of state with the place of its record in the changelog."""
    return {**in_state(key, value, **more), "changelog_topic": "bank-changelog", "changelog_offset": 9}


def _write(store: LocalStore, name: str, epoch: int, **more: Any) -> Manifest:
    message = {"sender": 3, "sender_app": "till", "receiver_app": "bank", "topic": "to-pay", "partition": 0}
    written = write_snapshot(
        store,
        name,
        epoch,
        cuts=[read_up_to("to-pay", 0, 3), read_up_to("credits", 0, epoch)],
        messages=[message | {"offset": 3, "key": "ann", "value": "1"}],
        channels=[in_channel("to-pay", 1, 7, sender=3), in_channel("credits", 0, 0, sender=2)],
        **more,
    )
    manifest = dataclasses.replace(
        written,
        times=Times(assembled_at=f"2026-05-0{epoch // 100}T12:00:00.000+00:00"),
        checks=tuple(_check(check, records, written.verdict) for check, records in CHECKED.items()),
    )
    Path(store.manifest_place(name)).write_text(dump(manifest), "utf-8")
    return manifest


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
