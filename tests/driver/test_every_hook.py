"""R15: whatever function of ours raises while a snapshot is taken, the app goes on, and everybody knows why its worker
takes no part any more.

Nobody lists the functions: `tests.driver.faults` traces which of ours a snapshot calls, in a worker that uses much of
Faust, and then runs such a worker with a fault in each of them, on a real broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka.testing import Broker

from .faults.wide_app import EXACTLY_ONCE, KINDS, ROCKSDB

#: So many parts the functions are tried in; a part has every so-manieth, and the first is tried with each change.
PARTS: Final = 12
#: A snapshot calls at least so many functions of ours.
FUNCTIONS_MIN: Final = 220
#: One of another kind of app calls at least so many more. What is of RocksDB is called when a partition is assigned.
MORE_MIN: Final = {EXACTLY_ONCE: 5, ROCKSDB: 0}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(1, PARTS))]
)
def test_r15_a_fault_in_any_function_that_a_snapshot_calls(kafka: Broker, tmp_path: Path, part: int) -> None:
    """The app processes every event once. The worker says once that it stands down, and why: in its log, in the ledger,
    where the open snapshot and the next one fail by that, and to `doctor`; snapshots of others go on."""
    found = faults(kafka, tmp_path / "found.json", f"{part}/{PARTS}")
    assert len(found["called"]) >= FUNCTIONS_MIN, found["called"]
    judge(found, found["called"][part::PARTS])


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_r15_a_fault_in_what_a_snapshot_of_another_kind_of_app_calls(
    kafka: Broker, tmp_path: Path, kind: str
) -> None:
    """Functions that a snapshot of the plain app does not call: of exactly-once apps, and of tables in RocksDB."""
    found = faults(kafka, tmp_path / "found.json", "0/1", kind)
    assert len(found["called"]) >= MORE_MIN[kind], found["called"]
    judge(found, found["called"])


def faults(kafka: Broker, out: Path, *arguments: str) -> dict[str, Any]:
    """Try a fault in each function of a part; what was called, and what became of each."""
    command = [sys.executable, "-m", "tests.driver.faults", kafka.bootstrap, str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr[-4000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def judge(found: dict[str, Any], wanted: list[str]) -> None:
    """Each was tried, its fault has happened, and nothing is wrong."""
    assert [one["where"] for one in found["tried"]] == wanted, "each is tried"
    assert [one["where"] for one in found["tried"] if not one["raised"]] == [], "each fault has happened"
    assert {one["where"]: one["wrong"] for one in found["tried"] if one["wrong"]} == {}
