"""Tickets of a real Kerberos server let the clients of the command, of workers and of the Spark job in."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from snapkafka.errors import AuthenticationError
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.runtime import Child, java
from snapkafka.testing import HOST, create_topics, free_ports
from snapkafka.until import blocking_until
from tests.features.readers import READER_JARS
from tests.kafka.doors import broker_with_doors
from tests.servers.jars import jars_with_dependencies

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(300)]

REALM: Final = "SHOP.TEST"
CLIENT: Final = f"ann@{REALM}"
#: By its name: Java asks for a ticket for that, also where it is given an address.
BROKER: Final = "localhost"
SERVICE: Final = f"kafka/{BROKER}@{REALM}"
STARTS_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Kerberos:
    """A running server. `keytab`: of the client."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "krb5.conf"

    @property
    def keytab(self) -> Path:
        return self.folder / "ann.keytab"

    @property
    def java_flag(self) -> str:
        return f"-Djava.security.krb5.conf={self.config}"

    def environ(self, *, keytab: bool = True) -> dict[str, str]:
        """Variables with which a client logs in; without `keytab` it finds no ticket."""
        found = {
            "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "SNAPKAFKA_KAFKA_SASL_MECHANISM": "GSSAPI",
            "KRB5_CONFIG": str(self.config),
            "KRB5CCNAME": f"FILE:{self.folder}/tickets-{keytab}",
        }
        return found | ({"KRB5_CLIENT_KTNAME": str(self.keytab)} if keytab else {})


def program(name: str) -> str:
    """A program of the server; where it is not installed the test is skipped."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"not run: {name} is not installed; `apt-get install krb5-kdc krb5-admin-server`")
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Kerberos]:
    """A server with a client and the service of a broker on this host; it ends with the test, or with us."""
    if find_spec("gssapi") is None:
        pytest.skip("not run: the package gssapi is not installed; `pip install gssapi`")
    kdc, util, admin = (program(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local"))
    (port,) = free_ports(1)
    # The database's module is looked for where the server was built to lie, not where it lies.
    modules = [*Path(kdc).parents[1].glob("lib/*/krb5/plugins/kdb")]
    database = f"[dbmodules]\n db_module_dir = {modules[0]}\n" if modules else ""
    (tmp_path / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
        " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = {HOST}:{port}\n }}\n{database}"
    )
    (tmp_path / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = {HOST}:{port}\n kdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {tmp_path}/principal\n  key_stash_file = {tmp_path}/stash\n"
        f"  acl_file = {tmp_path}/acl\n"
        f"  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n{database}"
    )
    configs = {"KRB5_CONFIG": f"{tmp_path}/krb5.conf", "KRB5_KDC_PROFILE": f"{tmp_path}/kdc.conf"}
    environ = os.environ | configs

    def run(*words: str) -> None:
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    run(util, "create", "-s", "-P", "not-a-secret", "-r", REALM)
    for principal, name in ((CLIENT, "ann"), (SERVICE, "kafka")):
        run(admin, "-r", REALM, "-q", f"addprinc -randkey {principal}")
        run(admin, "-r", REALM, "-q", f"ktadd -k {tmp_path}/{name}.keytab {principal}")
    with (tmp_path / "log").open("wb") as log:
        command = [kdc, "-n", "-r", REALM]
        with Child(command, env=environ, output=log, grace_s=0) as server:

            def starts() -> bool:
                return server.status is not None or b"starting" in (tmp_path / "log").read_bytes()

            blocking_until(starts, STARTS_WITHIN_S, "the Kerberos server")
            assert server.status is None, (tmp_path / "log").read_text()
            yield Kerberos(tmp_path)


@pytest.fixture
def door(server: Kerberos, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The door for tickets of a broker."""
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.ticket.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule"
        f' required useKeyTab=true storeKey=true keyTab="{server.folder}/kafka.keytab" principal="{SERVICE}";',
    }
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", server.java_flag)  # the broker is the one Java that it is for
    doors = {"TICKET": "SASL_PLAINTEXT"}
    with broker_with_doors(doors, properties, hosts={"TICKET": BROKER}) as (broker, at):
        monkeypatch.delenv("JAVA_TOOL_OPTIONS")
        create_topics(broker.bootstrap, "seen", partitions=1)
        yield at["TICKET"]


def command(door: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """`snapkafka list`, of a ledger that is not there."""
    return subprocess.run(
        [sys.executable, "-m", "snapkafka", "list", "--bootstrap", door, "--namespace", "none"],
        env=os.environ | environ, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


async def topics(door: str) -> set[str]:
    async with KafkaTopicAdmin(Connection.from_environment(door, os.environ)) as admin:
        return set(await admin.describe_topics())


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
