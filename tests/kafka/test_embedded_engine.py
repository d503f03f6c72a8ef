"""`snapkafka assemble --engine embedded`: from a captured snapshot to a verdict, without Spark and without Java."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.assembly import invariants, main
from snapkafka.errors import OffsetsGoneError
from snapkafka.kafka import Connection
from snapkafka.testing import Broker
from tests.installed import write_sitecustomize
from tests.spark.scene import play


def test_a_small_snapshot_needs_neither_spark_nor_java(kafka: Broker, tmp_path: Path) -> None:
    """In the environment of `pip install 'snapkafka[cli,embedded]'` on a machine without Java."""
    stage = play(kafka.bootstrap, f"embedded{os.getpid()}")
    name, storage, empty = stage.name(), tmp_path / "snaps", str(tmp_path / "empty")
    (tmp_path / "none.sql").write_text('SELECT * FROM messages WHERE "offset" < ${least}')
    write_sitecustomize(tmp_path / "stub", "cli", "embedded")
    Path(empty).mkdir()
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--storage", str(storage)]
    check = ["--invariants", str(tmp_path / "none.sql"), "--set", "least=0"]
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka", "assemble", name, *where, *check, "--json"],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
        env={"PATH": empty, "PYTHONPATH": str(tmp_path / "stub"), "HOME": empty},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = json.loads(done.stdout)["snapshots"]
    assert result["verdict"].startswith("VERIFIED")
    ran = {check["name"] for check in result["checks"] if check["run"]}
    assert ran >= {"V1", "V2", "V3", "V4", "V6 none"}
    manifest = json.loads((storage / f"{name}.json").read_text())
    assert set(manifest["versions"]) == {"snapkafka", "python", "pyarrow", "duckdb", "confluent-kafka"}
    assert asyncio.run(ops.verify_offline(name, storage=str(storage))).damage == ()
    state = asyncio.run(ops.read_ledger(Connection(bootstrap=stage.bootstrap), stage.namespace)).state
    verdict = state.snapshots[stage.epoch].verdict
    assert verdict is not None and verdict.digest == manifest["content"]


def test_a_topic_recreated_meanwhile(kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both engines ask by the same function once they have read, before they write the manifest."""
    stage = play(kafka.bootstrap, f"recreated{os.getpid()}")
    topic, check, recreated = stage.topic("orders"), invariants.check, list[str]()

    def recreate_and_check(*arguments: Any) -> Any:
        stage.delete(topic)
        stage.ask(lambda admin: admin.create_topic(topic, partitions=2))
        recreated.append(topic)
        return check(*arguments)

    monkeypatch.setattr(invariants, "check", recreate_and_check)
    status = main([*stage.job(tmp_path / "snaps", "snap"), "--engine", "embedded"])
    assert (status, recreated) == (OffsetsGoneError.exit_status, [topic])
    assert not (tmp_path / "snaps" / f"{stage.name()}.json").exists()
