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

#: So many parts the functions are tried in; a part has every so-manieth, and the first is tried with each change.
PARTS: Final = 12
#: A snapshot calls at least so many functions of ours.
FUNCTIONS_MIN: Final = 220


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]
)
def test_r15_a_fault_in_any_function_that_a_snapshot_calls(kafka: Broker, tmp_path: Path, part: int) -> None:
    """The app processes every event once. The worker says once that it stands down, and why: in its log, in the ledger,
    where the open snapshot and the next one fail by that, and to `doctor`; snapshots of others go on."""
    out = tmp_path / "found.json"
    command = [sys.executable, "-m", "tests.driver.faults", kafka.bootstrap, str(out), f"{part}/{PARTS}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr[-4000:]
    found: dict[str, Any] = json.loads(out.read_text())
    assert len(found["called"]) >= FUNCTIONS_MIN, found["called"]
    wanted = found["called"][part::PARTS]
    assert [one["where"] for one in found["tried"]] == wanted, "each is tried"
    assert [one["where"] for one in found["tried"] if not one["raised"]] == [], "each fault has happened"
    assert {one["where"]: one["wrong"] for one in found["tried"] if one["wrong"]} == {}
