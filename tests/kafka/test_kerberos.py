"""Tickets of a real Kerberos server let the clients of the command, of workers and of the Spark job in."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from snapkafka.errors import AuthenticationError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.runtime import java
from snapkafka.testing import create_topics
from tests.features.readers import READER_JARS
from tests.kafka.kerberos import CLIENT, Kerberos, broker_of, kerberos
from tests.servers.jars import jars_with_dependencies

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]


def command(door: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`snapkafka list`, of a ledger that is not there."""
    return subprocess.run(
        [sys.executable, "-m", "snapkafka", "list", "--bootstrap", door, "--namespace", "none"],
        env=os.environ | environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


async def topics(door: str) -> set[str]:
    async with KafkaTopicAdmin(Connection.from_environment(door, os.environ)) as admin:
        return set(await admin.describe_topics())


@pytest.fixture
def server() -> Iterator[Kerberos]:
    if find_spec("gssapi") is None:
        pytest.skip("not run: the package gssapi is not installed; `pip install gssapi`")
    with kerberos() as found:
        yield found


@pytest.fixture
def door(server: Kerberos, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """That of a broker, for tickets."""
    with broker_of(server, monkeypatch) as (broker, found):
        create_topics(broker.bootstrap, "seen", partitions=1)
        yield found


def test_a_ticket_lets_in_and_without_one_the_reason_is_one_line(
    server: Kerberos, door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    environ = server.environ() | {
        "SNAPKAFKA_KAFKA_SASL_KERBEROS_PRINCIPAL": CLIENT,
        "SNAPKAFKA_KAFKA_SASL_KERBEROS_KEYTAB": str(server.keytab),
    }
    settings = Connection.from_environment(door, environ).settings.for_java()
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
