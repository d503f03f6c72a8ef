"""Python without asserts and docstrings (`PYTHONOPTIMIZE=2`): the same traces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

PACKAGE = Path(__file__).parents[3] / "snapkafka"


def printed(*arguments: str, status: int = 0) -> str:
    """What this Python prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SNAPKAFKA")}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | {"COLUMNS": "120", "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.returncode == status, done.stderr
    return done.stdout


def test_the_simulator_has_the_same_trace() -> None:
    command = ("-m", "snapkafka.sim", "--seed", "7")
    assert printed("-OO", *command) == printed(*command)
