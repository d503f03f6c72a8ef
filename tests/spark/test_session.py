"""What a session of Spark is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from snapkafka.assembly.spark import session
from snapkafka.runtime import cache_dir

#: A machine that is set up for another Spark, Spark's shell, another Python, and Spark Connect.
OTHER_SPARK: Final = {
    "SPARK_HOME": "/opt/another-spark",
    "SPARK_REMOTE": "sc://cluster.example:15002",
    "SPARK_CONNECT_MODE_ENABLED": "1",
    "SPARK_LOCAL_IP": "",
    "PYSPARK_SUBMIT_ARGS": "--master yarn",
    "PYSPARK_PYTHON": "python2",
    "PYSPARK_DRIVER_PYTHON": "jupyter",
    "LC_ALL": "C",
}
IN_PYTHON: Final = """
from pyspark.sql import functions as fn
from snapkafka.assembly.spark.session import session

with session() as spark:
    double = fn.udf(lambda number: number * 2, "long")
    print([row[0] for row in spark.range(1, 3).select(double("id")).collect()])
"""


def test_settings_of_another_spark_are_dropped() -> None:
    environ = {"PATH": "/bin", "SPARK_CONF_DIR": "/etc/spark", **OTHER_SPARK}
    session.set_environment(environ)
    assert environ == {
        "PATH": "/bin",
        "SPARK_CONF_DIR": "/etc/spark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "LC_ALL": "C.UTF-8",
    }


@pytest.mark.parametrize(("limit", "heap"), [(24, 2048), (3, 1024)])
def test_the_heap_fits_into_the_memory_that_there_is(
    monkeypatch: pytest.MonkeyPatch, limit: int, heap: int
) -> None:
    monkeypatch.setattr(session, "memory_bytes", lambda: limit << 30)
    assert session.heap_bytes() >> 20 == heap


@pytest.mark.nightly
@pytest.mark.parametrize("environment", [OTHER_SPARK, {}], ids=["another Spark", "nothing"])
def test_a_session_starts_whatever_the_environment_holds(environment: dict[str, str], tmp_path: Path) -> None:
    """And where it holds nothing: no HOME, no locale; Java is on the PATH."""
    given = environment | {"SNAPKAFKA_CACHE": str(cache_dir()), "PATH": os.environ["PATH"]}
    given["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", IN_PYTHON]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=given, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[2, 4]\n"), done.stderr
