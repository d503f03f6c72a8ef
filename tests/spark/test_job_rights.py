"""The job as a principal with the rights that `doctor --acls` prints, and with one too few."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.demo import wait_until
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka import Connection
from tests.kafka.guarding import PASSWORD, guarded_broker
from tests.kafka.test_doctor import grant
from tests.spark.scene import play

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

ROLE = "ASSEMBLY"


def test_the_rights_that_are_printed_are_enough_and_one_less_is_named(tmp_path: Path) -> None:
    with guarded_broker([ROLE]) as (broker, address):
        stage = play(broker.bootstrap, f"a{os.getpid()}")
        changelog = stage.topic("balances")

        def job() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [
                    *(sys.executable, "-m", "snapkafka.assembly", "--bootstrap", address),
                    *("--namespace", stage.namespace, "--storage", str(tmp_path)),
                    *("--snapshot", f"{stage.namespace}-snap"),
                ],
                capture_output=True,
                text=True,
                timeout=240,
                env=os.environ
                | {
                    "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
                    "SNAPKAFKA_KAFKA_SASL_MECHANISM": "PLAIN",
                    "SNAPKAFKA_KAFKA_SASL_USERNAME": ROLE,
                    "SNAPKAFKA_KAFKA_SASL_PASSWORD": PASSWORD,
                },
            )

        def error() -> dict[str, str]:
            found = json.loads(job().stdout)["error"]
            assert found["exit_status"] == LedgerUnusableError.exit_status
            return dict(found)

        assert "not allowed" in error()["message"]  # nothing is granted, not even the ledger

        found = asyncio.run(ops.rights(Connection(bootstrap=broker.bootstrap), stage.namespace))
        lines = [right.command for right in found.rights if right.role == ROLE.lower()]
        reading = [line for line in lines if changelog in line and "--operation Read" in line]
        assert reading, "the rights that are printed do not name the changelog"
        others = [line.replace(f"--topic {changelog}", "") for line in reading]
        grant(broker.bootstrap, [line for line in lines if line not in reading] + others)
        grant(
            broker.bootstrap,
            [f"{reading[0].partition(' --operation')[0]} --operation Describe --topic {changelog}"],
        )
        wait_until("the rights to be there", lambda: changelog in error()["message"], timeout_s=60)
        done = job()
        reported = json.loads(done.stdout)["error"]
        assert reported["message"].startswith("not allowed to read what the snapshot needs: ")
        assert "`snapkafka doctor --acls`" in reported["hint"]
        assert "\tat org." not in done.stderr
        assert len(done.stderr.splitlines()) < 30, done.stderr
        assert [path.name for path in tmp_path.iterdir()] == []

        grant(broker.bootstrap, reading)

        def whole() -> bool:
            return job().returncode == 0

        wait_until("the right to be there", whole, timeout_s=90)
        manifest = json.loads((tmp_path / f"{stage.namespace}-snap.json").read_text())
        assert manifest["verdict"] == "VERIFIED"
