"""Tickets of a real Kerberos server let the clients of the command, of workers and of the Spark job in."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from snapkafka.errors import AuthenticationError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.runtime import java
from snapkafka.testing import create_topics, system
from tests.e2e import tested_shop
from tests.features.harness import read_topics
from tests.features.readers import READER_JARS
from tests.kafka.kerberos import CLIENT, Kerberos, broker_of, kerberos
from tests.servers.jars import jars_with_dependencies

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class World:
    """A Kerberos server, and a broker: its open door and that for tickets."""

    server: Kerberos
    bootstrap: str
    door: str

    @property
    def java(self) -> dict[str, str]:
        """Variables by which Java's clients log in, on top of those of Python's."""
        return self.server.environ() | {
            "SNAPKAFKA_KAFKA_SASL_KERBEROS_PRINCIPAL": CLIENT,
            "SNAPKAFKA_KAFKA_SASL_KERBEROS_KEYTAB": str(self.server.keytab),
        }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    if find_spec("gssapi") is None:
        pytest.skip("not run: the package gssapi is not installed; `pip install gssapi`")
    with kerberos() as server, broker_of(server, monkeypatch) as (broker, door):
        create_topics(broker.bootstrap, "seen", partitions=1)
        yield World(server, broker.bootstrap, door)


def command(door: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`snapkafka list`, of a ledger that is not there."""
    return subprocess.run(
        [sys.executable, "-m", "snapkafka.cli", "list", "--bootstrap", door, "--namespace", "none"],
        env=os.environ | environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


async def topics(door: str) -> set[str]:
    admin = KafkaTopicAdmin(Connection.from_environment(door, os.environ))
    try:
        return set(await admin.describe_topics())
    finally:
        await admin.close()


def test_a_ticket_lets_in_and_without_one_the_reason_is_one_line(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, door = world.server, world.door

    # 1. The clients of the command and of workers (aiokafka): a ticket by a keytab.
    for name, value in server.environ().items():
        monkeypatch.setenv(name, value)
    assert "seen" in asyncio.run(topics(door))

    # 2. No ticket: what is missing and what to do, and no traceback.
    monkeypatch.delenv("KRB5_CLIENT_KTNAME")
    done = command(door, server.environ(keytab=False))
    assert done.returncode == AuthenticationError.exit_status, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()
    assert said[0].startswith("error: ") and door in said[0], done.stderr
    assert "kinit" in said[1] and len(said) == 2, done.stderr

    # 3. Kafka's Java client, which the Spark job reads with.
    settings = Connection.from_environment(door, world.java).settings.for_java()
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    class_path = os.pathsep.join(str(jar) for jar in jars_with_dependencies(*READER_JARS))
    listed = subprocess.run(
        [
            str(java().executable), server.java_flag, "-XX:-UsePerfData", "-cp", class_path,
            "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", door,
            "--command-config", str(file), "--topic", "seen",
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "seen:0:0" in listed.stdout.splitlines(), listed.stdout + listed.stderr


def test_the_spark_job_reads_by_tickets(world: World, tmp_path: Path) -> None:
    with system(tested_shop.orders, tested_shop.payments, bootstrap=world.bootstrap) as s:
        s.send("tested-new-orders", 1, 2, 3, key="ann")
        s.wait_until(
            "the payment", lambda: any(read_topics(s.bootstrap, "tested-to-pay").values()), timeout_s=60
        )
        taken = s.snapshot()
        done = subprocess.run(
            [
                sys.executable, "-m", "snapkafka.cli", "assemble", "--bootstrap", world.door,
                "--namespace", s.namespace, "--storage", str(tmp_path), taken.id,
            ],
            env=os.environ | world.java | {"JAVA_TOOL_OPTIONS": world.server.java_flag},
            capture_output=True, text=True, timeout=240,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = json.loads((tmp_path / f"{taken.id}.json").read_text())
    assert (manifest["id"], manifest["verdict"]) == (taken.id, "VERIFIED")
