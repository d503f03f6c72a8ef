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

#: A snapshot of each kind of app calls at least so many functions of ours; of other kinds than the plain one only those
#: count that it does not call. What is of RocksDB is called when a partition is assigned.
CALLED_MIN: Final = {"": 210, EXACTLY_ONCE: 3, ROCKSDB: 0}
#: Those of the plain app are tried in so many parts; a part has every so-manieth.
PARTS: Final = 12
CASES: Final = [*(("", part, PARTS) for part in range(PARTS)), *((kind, 0, 1) for kind in KINDS)]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("kind", "part", "parts"),
    [CASES[0], *(pytest.param(*case, marks=pytest.mark.nightly) for case in CASES[1:])],
)
def test_r15_a_fault_in_any_function_that_a_snapshot_calls(
    kafka: Broker, tmp_path: Path, kind: str, part: int, parts: int
) -> None:
    """The app processes every event once. The worker says once that it stands down, and why: in its log, in the ledger,
    where the open snapshot and the next one fail by that, and to `doctor`; snapshots of others go on."""
    found = faults(kafka, tmp_path / "found.json", f"{part}/{parts}", kind)
    assert len(found["called"]) >= CALLED_MIN[kind], found["called"]
    assert [one["where"] for one in found["tried"]] == found["called"][part::parts], "each is tried"
    assert [one["where"] for one in found["tried"] if not one["raised"]] == [], "each fault has happened"
    assert {one["where"]: one["wrong"] for one in found["tried"] if one["wrong"]} == {}


def faults(kafka: Broker, out: Path, *arguments: str) -> dict[str, Any]:
    """Try a fault in each function of a part; what was called, and what became of each."""
    command = [sys.executable, "-m", "tests.driver.faults", kafka.bootstrap, str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr[-4000:]
    found: dict[str, Any] = json.loads(out.read_text())
    return found
