"""The codec on `avro-python3` 1.10, which shares its import name with `avro`: in a virtual environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.runtime import cache_dir
from snapkafka.runtime.fetching import fetch_lock

pytestmark = pytest.mark.nightly

CHECKOUT = Path(__file__).parents[3]
PACKAGES = ("avro-python3==1.10.2", "pytest>=8.3,<10", "hypothesis>=6.100,<7")


def python_with_avro_python3() -> Path:
    """Its interpreter; the environment is made once and kept in the cache. (It cannot be moved, so it is made in
    place, and a file says when it is whole.)"""
    place = cache_dir() / f"avro-python3-1.10.2-py{sys.version_info.major}.{sys.version_info.minor}"
    python, whole = place / "bin" / "python", place / "whole"
    with fetch_lock():
        if not whole.exists() or not python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True, timeout=120)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, done.stderr
            whole.touch()
    return python


@pytest.mark.timeout(600)
def test_the_codec_runs_on_avro_python3_as_well(tmp_path: Path) -> None:
    python = python_with_avro_python3()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))
    }
    environment |= {"PYTHONPATH": str(CHECKOUT), "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")}

    version = "import importlib.metadata as m, avro.io; print(m.version('avro-python3'))"
    found = subprocess.run(
        [python, "-c", version], capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.strip() == "1.10.2"

    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    tests = str(CHECKOUT / "tests" / "unit" / "wire" / "test_codec.py")
    command = [
        str(python),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(tmp_path / "pytest.ini"),
        tests,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout[-2000:]
