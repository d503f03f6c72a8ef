"""The job under the real `spark-submit`, as a scheduler runs it: in a session that Spark has made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import snapkafka.assembly
from snapkafka.runtime import spark_jars, spark_java_home
from snapkafka.testing import Broker
from tests.spark.scene import play

pytestmark = pytest.mark.nightly

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
ENTRY = Path(snapkafka.assembly.__file__).with_name("__main__.py")


def submit(*arguments: str) -> subprocess.CompletedProcess[str]:
    options = ["--master", "local[2]", "--jars", ",".join(map(str, spark_jars()))]
    options += ["--driver-java-options", "-XX:TieredStopAtLevel=1", "--conf", "spark.ui.enabled=false"]
    environment = os.environ | {
        "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return subprocess.run(
        [str(SUBMIT), *options, str(ENTRY), *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
    )


def test_a_snapshot_is_assembled_and_what_is_refused_has_its_exit_status(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    stage, result = play(kafka.bootstrap, namespace), tmp_path.parent / "result"
    name = f"{namespace}-snap"
    common = ["--bootstrap", kafka.bootstrap, "--namespace", namespace, "--storage", str(tmp_path)]
    common += ["--result", str(result)]

    done = submit(*common, "--snapshot", name)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    (reported,) = json.loads(result.read_text())["snapshots"]
    manifest = json.loads((tmp_path / f"{name}.json").read_text())
    assert reported["manifest"] == str(tmp_path / f"{name}.json")
    assert (manifest["verdict"], manifest["captured"]["epoch"]) == ("VERIFIED", stage.epoch)
    rows = {"state": 4, "messages": 6, "channels": 4, "processes": 3, "positions": 4, "around": 14}
    assert reported["tables"] == rows
    for table in manifest["tables"]:
        assert list((tmp_path / name / table["name"]).glob("*.parquet")), table

    refused = submit(*common, "--snapshot", "unknown")
    assert refused.returncode == 5, refused.stdout + refused.stderr[-4000:]
    assert json.loads(result.read_text())["error"]["code"] == "unknown-snapshot"
    assert [path.name for path in tmp_path.glob("*.json")] == [f"{name}.json"]
