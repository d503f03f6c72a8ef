"""`make demo`, as a user sees it: the result as data, and Ctrl-C that leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from snapkafka.demo import TOTAL, wait_until
from snapkafka.errors import TimedOutError

DEMO = (sys.executable, "-m", "snapkafka.demo", "--json", "--storage")
#: A shell in the background leaves Ctrl-C ignored for all that it starts.
WITH_CTRL_C = (
    "import signal, runpy;"
    "signal.signal(signal.SIGINT, signal.default_int_handler);"
    "runpy.run_module('snapkafka.demo', run_name='__main__')"
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
        assert one["money"]["total"] == TOTAL
        assert one["money"]["in_tables"] + one["money"]["in_flight"] == TOTAL
        assert Path(one["manifest"]).is_file()
    assert "Assembly and verification by the embedded engine" in done.stderr
    if engine == "both":
        (log,) = tmp_path.glob("*/verification.txt")
        assert "starting Spark" in log.read_text()


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    """With broker, workers and load running. What it says goes to a file: a pipe would wait for whoever is left."""
    said = tmp_path / "said.txt"
    with said.open("wb") as out:
        demo = subprocess.Popen(
            [sys.executable, "-c", WITH_CTRL_C, "--storage", str(tmp_path)],
            # Where a terminal of 85 columns would break the line that is awaited, a file has it whole.
            env={**os.environ, "MARK": str(tmp_path), "COLUMNS": "85"},
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
        )
    try:
        with relevant(said):
            wait_until("the load", lambda: loaded(said) or demo.poll() is not None, timeout_s=150)
        assert demo.poll() is None, said.read_text()
        assert len(marked(tmp_path)) > 6, "broker, four workers, and who watches over them"
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 130
        assert "stopped; nothing is left running" in said.read_text()
        assert marked(tmp_path) == []
    finally:
        demo.kill()
        demo.wait()
        for left in marked(tmp_path):
            left.kill()


def loaded(said: Path) -> bool:
    return "transfers asked for" in said.read_text()


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
