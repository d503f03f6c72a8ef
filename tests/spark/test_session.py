"""What a session of Spark is started with; and the job in a session that the real `spark-submit` has made."""

import importlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyspark
import pytest

import snapkafka.assembly
from snapkafka.assembly.spark import session
from snapkafka.runtime import cache_dir, locked_jars, spark_java_home
from snapkafka.testing import Broker, free_ports
from tests.spark.scene import play

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
def test_a_session_starts_whatever_the_environment_holds(tmp_path: Path) -> None:
    """There is no HOME, and no locale; Java is on the PATH."""
    given = OTHER_SPARK | {"SNAPKAFKA_CACHE": str(cache_dir()), "PATH": os.environ["PATH"]}
    given["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", IN_PYTHON]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=given, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[2, 4]\n"), done.stderr


# -- under `spark-submit`, as a scheduler runs it --------------------------------------------------------------


SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
ENTRY = Path(snapkafka.assembly.__file__).with_name("__main__.py")


#: What executors need of the packages here, as `pip install --target` brings them.
PACKAGES = ("aiokafka", "async_timeout", "dateutil", "fastavro", "msgspec", "numpy", "packaging", "pandas", "pyarrow",
            "pytz", "six", "snapkafka", "typing_extensions")  # fmt: skip


def environment() -> dict[str, str]:
    return os.environ | {"JAVA_HOME": str(spark_java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}


def packed(folder: Path) -> list[str]:
    """Pack the packages; return the options by which executors have these, and none of this environment."""
    archive = folder / "env.tar"
    with tarfile.open(archive, "w") as tar:
        for name in PACKAGES:
            place = importlib.import_module(name).__file__
            assert place is not None
            found = Path(place).parent if place.endswith("__init__.py") else Path(place)
            tar.add(found, found.name)
            if (libraries := found.with_name(f"{found.name}.libs")).is_dir():
                tar.add(libraries, libraries.name)
    bare = Path(sys.base_prefix) / "bin" / "python3"
    options = [f"spark.pyspark.python={bare}", f"spark.pyspark.driver.python={sys.executable}"]
    options.append("spark.executorEnv.PYTHONPATH=./env")
    return ["--archives", f"{archive}#env", *(part for it in options for part in ("--conf", it))]


def submit(master: str, more: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    options = [*more, "--master", master]
    options += ["--jars", ",".join(map(str, locked_jars("spark")))]
    options += ["--driver-java-options", "-XX:TieredStopAtLevel=1", "--conf", "spark.ui.enabled=false"]
    options += ["--conf", "spark.executor.memory=600m"]
    return subprocess.run(
        [str(SUBMIT), *options, str(ENTRY), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment(),
    )


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a cluster of two worker processes; its executors are processes of their own."""
    port, page = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    parts = [[f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", page]]
    parts += [
        [f"{deploy}.worker.Worker", "-c", 1, "-m", "700m", "-d", folder / f"work{n}", master]
        for n in range(2)
    ]
    running = [
        subprocess.Popen(
            [str(SUBMIT.with_name("spark-class")), *map(str, part)], env=environment(), cwd=folder
        )
        for part in parts
    ]
    try:
        yield master
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(30)


@pytest.mark.nightly
@pytest.mark.timeout(1_500)
def test_a_snapshot_is_assembled_and_what_is_refused_has_its_exit_status(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """The workers of the cluster have the packages that are sent along, and no others."""
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster") as master:
        _assembled(master, packed(tmp_path), kafka, namespace, tmp_path / "storage")


def _assembled(master: str, more: list[str], kafka: Broker, namespace: str, tmp_path: Path) -> None:
    stage, result = play(kafka.bootstrap, namespace), tmp_path.parent / "result"
    name, common = stage.name(), ["--result", str(result)]
    done = submit(master, more, *common, *stage.job(tmp_path, "snap"))
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    (reported,) = json.loads(result.read_text())["snapshots"]
    manifest = json.loads((tmp_path / f"{name}.json").read_text())
    assert reported["checkpoint_manifest_uri"] == str(tmp_path / f"{name}.json")
    assert (manifest["verdict"], manifest["captured"]["epoch"]) == ("VERIFIED", stage.epoch)
    rows = {"state": 4, "messages": 6, "channels": 4, "processes": 3, "positions": 4, "around": 14}
    assert reported["tables"] == rows
    for table in manifest["tables"]:
        assert list((tmp_path / name).glob(f"*/{table['name']}/*.parquet")), table

    refused = submit(master, more, *common, *stage.job(tmp_path, "unknown"))
    assert refused.returncode == 5, refused.stdout + refused.stderr[-4000:]
    assert json.loads(result.read_text())["error"]["code"] == "unknown-snapshot"
    assert [path.name for path in tmp_path.glob("*.json")] == [f"{name}.json"]
