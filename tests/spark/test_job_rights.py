"""The job as a principal with the rights that docs/reference/ledger.md lists, and with one too few."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka.errors import LedgerUnusableError
from snapkafka.testing import wait_until
from tests.kafka.doors import PASSWORD, guarded_broker
from tests.kafka.rights import grant, rights
from tests.spark.scene import play

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

ROLE = "ASSEMBLY"
LOGIN = {
    "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SNAPKAFKA_KAFKA_SASL_MECHANISM": "PLAIN",
    "SNAPKAFKA_KAFKA_SASL_USERNAME": ROLE,
    "SNAPKAFKA_KAFKA_SASL_PASSWORD": PASSWORD,
}


def test_the_rights_that_are_printed_are_enough_and_one_less_is_named(tmp_path: Path) -> None:
    with guarded_broker([ROLE]) as (broker, address):
        stage = play(broker.bootstrap, f"a{os.getpid()}")
        changelog = stage.topic("balances")

        def job() -> subprocess.CompletedProcess[str]:
            arguments = [*stage.job(tmp_path, "snap"), "--bootstrap", address]
            command = [sys.executable, "-m", "snapkafka.assembly", *arguments]
            env = os.environ | LOGIN
            return subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)

        def error() -> dict[str, str]:
            found = json.loads(job().stdout)["error"]
            assert found["exit_status"] == LedgerUnusableError.exit_status
            return dict(found)

        assert "not allowed" in error()["message"]  # nothing is granted, not even the ledger

        there = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
        topics = {name for name in there if not name.startswith("_")}
        needed = [
            right
            for right in rights(stage.namespace, inputs=topics - {changelog}, changelogs=[changelog])
            if right.role == ROLE.lower()
        ]
        missing = [right for right in needed if (right.name, right.operation) == (changelog, "Read")]
        grant(broker.bootstrap, [right for right in needed if right not in missing])
        grant(broker.bootstrap, [right._replace(operation="Describe") for right in missing])
        wait_until("the rights to be there", lambda: changelog in error()["message"], timeout_s=60)
        done = job()
        reported = json.loads(done.stdout)["error"]
        assert reported["message"].startswith("not allowed to read what the snapshot needs: ")
        assert "\tat org." not in done.stderr
        assert len(done.stderr.splitlines()) < 30, done.stderr
        assert [path.name for path in tmp_path.iterdir()] == []

        grant(broker.bootstrap, missing)

        wait_until("the right to be there", lambda: job().returncode == 0, timeout_s=90)
        manifest = json.loads((tmp_path / f"{stage.name()}.json").read_text())
        assert manifest["verdict"] == "VERIFIED"
