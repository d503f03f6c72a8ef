"""Tickets of a real Kerberos server let the clients of the command, of workers and of the Spark job in."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

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


def program(name: str) -> str:
    """A program of the server; where it is not installed the test is skipped."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"not run: {name} is not installed; `apt-get install krb5-kdc krb5-admin-server`")
    return found


def run(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [str(word) for word in words]
    more: Any = {"capture_output": True, "text": True, "timeout": 120}
    return subprocess.run(command, env=os.environ | environ, **more)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Path]:
    """The folder of a server, with `krb5.conf`, and keytabs of a client, `ann`, and of the service of a broker on this
    host, `kafka`; it ends with the test, or with us."""
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
    made = [run(util, "create", "-s", "-P", "not-a-secret", "-r", REALM, **configs)]
    for principal, name in ((CLIENT, "ann"), (SERVICE, "kafka")):
        for query in (f"addprinc -randkey {principal}", f"ktadd -k {tmp_path}/{name}.keytab {principal}"):
            made.append(run(admin, "-r", REALM, "-q", query, **configs))
    assert [it.returncode for it in made] == [0] * 5, made
    log, command = tmp_path / "log", [kdc, "-n", "-r", REALM]
    with log.open("wb") as out, Child(command, env=os.environ | configs, output=out, grace_s=0) as child:

        def starts() -> bool:
            return child.status is not None or b"starting" in log.read_bytes()

        blocking_until(starts, STARTS_WITHIN_S, "the Kerberos server")
        assert child.status is None, log.read_text()
        yield tmp_path


@pytest.fixture
def door(server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The door for tickets of a broker."""
    properties = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.ticket.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule"
        f' required useKeyTab=true storeKey=true keyTab="{server}/kafka.keytab" principal="{SERVICE}";',
    }
    # the broker is the one Java that it is for
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={server}/krb5.conf")
    doors = {"TICKET": "SASL_PLAINTEXT"}
    with broker_with_doors(doors, properties, hosts={"TICKET": BROKER}) as (broker, at):
        monkeypatch.delenv("JAVA_TOOL_OPTIONS")
        create_topics(broker.bootstrap, "seen", partitions=1)
        yield at["TICKET"]


def test_who_has_a_ticket_is_let_in(server: Path, door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SNAPKAFKA_KAFKA_SASL_MECHANISM": "GSSAPI"}
    monkeypatch.setenv("KRB5_CONFIG", f"{server}/krb5.conf")

    # 1. No ticket: what is missing and what to do, and no traceback.
    tickets = {"KRB5CCNAME": f"FILE:{server}/none"}
    where = ["--bootstrap", door, "--namespace", "none"]
    done = run(sys.executable, "-m", "snapkafka", "list", *where, **ours, **tickets)
    assert done.returncode == AuthenticationError.exit_status, done.stdout + done.stderr
    said = done.stderr.strip().splitlines()
    assert said[0].startswith("error: ") and door in said[0], done.stderr
    assert "kinit" in said[1] and len(said) == 2, done.stderr

    # 2. The clients of the command and of workers (aiokafka): a ticket by a keytab.
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{server}/tickets")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{server}/ann.keytab")

    async def topics() -> set[str]:
        async with KafkaTopicAdmin(Connection.from_environment(door, ours)) as admin:
            return set(await admin.describe_topics())

    assert "seen" in asyncio.run(topics())

    # 3. Kafka's Java client, which the Spark job reads with.
    keytab = {
        "SNAPKAFKA_KAFKA_SASL_KERBEROS_PRINCIPAL": CLIENT,
        "SNAPKAFKA_KAFKA_SASL_KERBEROS_KEYTAB": f"{server}/ann.keytab",
    }
    settings = Connection.from_environment(door, ours | keytab).settings.for_java()
    file = server / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    listed = run(
        java().executable, f"-Djava.security.krb5.conf={server}/krb5.conf", "-XX:-UsePerfData", "-cp",
        os.pathsep.join(map(str, jars_with_dependencies(*READER_JARS))),
        "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", door, "--command-config", file,
        "--topic", "seen",
    )  # fmt: skip
    assert "seen:0:0" in listed.stdout.splitlines(), listed.stdout + listed.stderr
