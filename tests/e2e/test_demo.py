"""`make demo`, as a user sees it: the result as data. Ctrl-C is a case of `test_signals`."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from snapkafka.demo import TOTAL
from snapkafka.errors import TimedOutError

DEMO = (sys.executable, "-m", "snapkafka", "demo", "--json", "--storage")
#: A shell in the background leaves Ctrl-C ignored for all that it starts.
WITH_CTRL_C = (
    "import signal, runpy;"
    "signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('snapkafka', run_name='__main__')"
)


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


@contextlib.contextmanager
def relevant(said: Path) -> Iterator[None]:
    """What was said until then, where a wait is in vain."""
    try:
        yield
    except TimedOutError as error:
        raise TimedOutError(f"{error}; until then it said:\n{said.read_text()}") from error


def marked(mark: Path) -> list[psutil.Process]:
    """Every process that has the mark in its environment, which it inherited."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MARK") == str(mark):
                found.append(process)
    return found
