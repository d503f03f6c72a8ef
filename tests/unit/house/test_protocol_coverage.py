"""100 % branch coverage of `protocol/`: no line, and no way past one, that neither tests nor simulations take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1300)]

ROOT = Path(__file__).resolve().parents[3]

#: What belongs to the protocol: its rules as tests, and as scenarios; runs of the simulator. (What measures memory
#: takes long, and no way of its own.)
OWN = [
    "tests/protocol",
    "tests/scenarios",
    "--ignore=tests/protocol/test_memory.py",
    "tests/sim/test_twenty_seeds.py",
    "tests/sim/test_campaign.py::test_no_snapshot_of_these_worlds_is_wrong",
    "tests/sim/test_campaign.py::test_a_seed_that_once_showed_something",
]
#: All that takes less than a night.
QUICK = ["-m", "not nightly"]


def test_every_branch_of_the_protocol_is_taken(tmp_path: Path) -> None:
    environment = os.environ | {"COVERAGE_FILE": str(tmp_path / "coverage")}
    for variable in [name for name in environment if name.startswith(("COV_", "PYTEST_"))]:
        del environment[variable]

    def coverage(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "coverage", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    coverage(
        "run", "--source=snapkafka/protocol", "-m", "pytest", "-q", "-p", "no:cacheprovider", *QUICK, *OWN
    )
    coverage("json", "-q", "-o", str(tmp_path / "coverage.json"))
    files = json.loads((tmp_path / "coverage.json").read_text("utf-8"))["files"]
    assert len(files) >= 12, f"was the package found? {sorted(files)}"
    missing = {
        name: (found["missing_lines"], found["missing_branches"])
        for name, found in files.items()
        if found["missing_lines"] or found["missing_branches"]
    }
    assert not missing, "lines, and branches (from, to), that nothing of this takes"
