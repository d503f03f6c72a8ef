"""`python -m snapkafka.assembly`: from the ledger to a verdict in it; and everything that is refused, before Spark."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from snapkafka.assembly import Desk, main
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.kafka.cluster.groups import positions_group
from snapkafka.protocol import Status
from snapkafka.testing import Broker
from tests.spark.at_hand import spec_file
from tests.spark.scene import Stage, play

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def stage(kafka: Broker) -> Stage:
    return play(kafka.bootstrap, f"j{os.getpid()}")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run it in this process (nothing that is refused starts Spark): status, JSON, standard error."""
    status = main([*arguments])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


def test_from_the_ledger_to_a_verdict(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, manifest, verdict in the ledger, positions as a consumer group; a service may go on meanwhile."""
    name = f"{stage.namespace}-snap"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "snapkafka.assembly", "--bootstrap", stage.bootstrap),
            *("--namespace", stage.namespace, "--snapshot", name, "--storage", str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        env=os.environ
        | {"SPARK_SUBMIT_OPTS": "-XX:+PrintCodeCache"},  # the JVM writes to its standard output
    )
    assert done.returncode == 0, done.stderr
    assert "max_used=" in done.stderr
    assert "max_used=" not in done.stdout, "that has the result and nothing else"
    (reported,) = json.loads(done.stdout)["snapshots"]
    assert (reported["snapshot_id"], reported["epoch"], reported["verdict"]) == (
        name,
        stage.epoch,
        "VERIFIED",
    )
    assert re.search(
        rf"^{name}: read \d+ offsets; wrote \d+ rows in 6 tables, .*; checked V1, V2, V3, V4, V5; .* s$",
        done.stderr,
        re.MULTILINE,
    )
    assert [check["name"] for check in reported["checks"] if check["run"]] == ["V1", "V2", "V3", "V4", "V5"]
    assert all(check["status"] == "passed" for check in reported["checks"] if check["run"])
    manifest = json.loads((tmp_path / f"{name}.json").read_text())

    connection = Connection(bootstrap=stage.bootstrap)
    with Desk(connection, stage.namespace) as desk:
        view = desk.reading.state.snapshots[stage.epoch]
    assert view.status is Status.COMPLETED
    assert view.verdict is not None
    assert (view.verdict.verdict, view.verdict.digest) == ("VERIFIED", manifest["content"])
    assert [check.records for check in view.verdict.checks] == [
        check["records"] for check in manifest["checks"] if check["run"]
    ]
    assert view.verdict.checks[0].records > 0
    assert view.verdict.manifest == str(tmp_path / f"{name}.json")

    async def committed(app: str) -> dict[Any, tuple[int, str]]:
        admin = KafkaTopicAdmin(connection)
        try:
            return await admin.committed(positions_group(stage.namespace, app))
        finally:
            await admin.close()

    # Verified again by a path that means something only here, it is found from everywhere.
    monkeypatch.chdir(tmp_path)
    again = ["--bootstrap", stage.bootstrap, *spec_file(tmp_path, manifests=(f"{name}.json",), record=True)]
    assert main(again) == 0
    with Desk(connection, stage.namespace) as desk:
        latest = desk.reading.state.snapshots[stage.epoch].verdict
    assert latest is not None
    assert (latest.manifest, latest != view.verdict) == (str(tmp_path / f"{name}.json"), True)

    assert asyncio.run(committed("alpha")) == {
        stage.tp("orders", 0): (2, name),
        stage.tp("orders", 1): (0, name),
    }


def test_deleted_offsets_are_named(kafka: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = play(kafka.bootstrap, f"g{os.getpid()}")
    admin = AdminClient({"bootstrap.servers": stage.bootstrap, "log_level": 0})
    for done in admin.delete_records([KafkaPartition(*stage.tp("orders"), 5)]).values():
        done.result()
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--storage", str(tmp_path)]
    status, reported, _ = run(capsys, *where, "--snapshot", f"{stage.namespace}-snap")
    assert status == 9
    assert reported["error"]["code"] == "offsets-gone"
    assert list(tmp_path.iterdir()) == []
