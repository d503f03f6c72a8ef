"""`make demo`, as a user sees it: the result as data. Ctrl-C is a case of `test_signals`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.demo import TOTAL

DEMO = (sys.executable, "-m", "snapkafka", "demo", "--json", "--storage")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["embedded", pytest.param("both", marks=pytest.mark.nightly)])
def test_the_result_as_data(tmp_path: Path, engine: str) -> None:
    """Three verified snapshots, the money right in each; what is said on the way goes to standard error."""
    chosen = ["--engine=embedded"] if engine == "embedded" else []
    done = subprocess.run([*DEMO, str(tmp_path), *chosen], capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-4000:]
    reported = json.loads(done.stdout)
    assert len(reported["snapshots"]) == 3
    for one in reported["snapshots"]:
        assert one["verdict"] == "VERIFIED"
        assert one["total"] == TOTAL
        assert one["money"]["in_tables"] + one["money"]["in_flight"] == TOTAL
        assert Path(one["checkpoint_manifest_uri"]).is_file()
        assert any(Path(one["tables"], "state").iterdir())
    assert "Assembly and verification by the embedded engine" in done.stderr
    assert ("two engines, one verdict" in done.stderr) is (engine == "both")
