"""`python -m snapkafka.assembly` with Spark: from the ledger to a verdict in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.assembly import Desk, main
from snapkafka.kafka import Connection
from snapkafka.kafka.cluster.groups import positions_group
from snapkafka.protocol import Status
from snapkafka.testing import Broker
from tests.spark.at_hand import spec_file
from tests.spark.scene import play


def test_from_the_ledger_to_a_verdict(
    kafka: Broker, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, manifest, verdict in the ledger, positions as a consumer group."""
    stage = play(kafka.bootstrap, namespace)
    name = stage.name()
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka.assembly", *stage.job(tmp_path, "snap")],
        capture_output=True,
        text=True,
        timeout=280,
        # The JVM writes to its standard output.
        env=os.environ | {"SPARK_SUBMIT_OPTS": "-XX:+PrintCodeCache"},
    )
    assert done.returncode == 0, done.stderr
    assert "max_used=" in done.stderr
    assert "max_used=" not in done.stdout, "that has the result and nothing else"
    (reported,) = json.loads(done.stdout)["snapshots"]
    described = reported["snapshot_id"], reported["epoch"], reported["verdict"]
    assert described == (name, stage.epoch, "VERIFIED")
    assert re.search(
        rf"^{name}: read \d+ offsets; wrote \d+ rows in 6 tables, .*; checked V1, V2, V3, V4, V5; .* s$",
        done.stderr,
        re.MULTILINE,
    )
    assert [check["name"] for check in reported["checks"] if check["run"]] == ["V1", "V2", "V3", "V4", "V5"]
    assert all(check["status"] == "passed" for check in reported["checks"] if check["run"])
    manifest = json.loads((tmp_path / f"{name}.json").read_text())
    assert (manifest["engine"], manifest["restorable"]["how"]) == ("spark", "from")
    assert {(it["name"], it["partitions"], len(it["topic_id"])) for it in manifest["topics"]} == {
        (stage.topic(topic), 2, 32) for topic in ("orders", "credits", "balances")
    }

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

    # Verified again by a path that means something only here, it is found from everywhere.
    monkeypatch.chdir(tmp_path)
    again = spec_file(tmp_path, manifests=(f"{name}.json",), record=True, engine="embedded")
    assert main(["--bootstrap", stage.bootstrap, *again]) == 0
    with Desk(connection, stage.namespace) as desk:
        latest = desk.reading.state.snapshots[stage.epoch].verdict
    assert latest is not None
    assert (latest.manifest, latest != view.verdict) == (str(tmp_path / f"{name}.json"), True)

    assert stage.ask(lambda admin: admin.committed(positions_group(stage.namespace, "alpha"))) == {
        stage.tp("orders", 0): (2, name),
        stage.tp("orders", 1): (0, name),
    }
