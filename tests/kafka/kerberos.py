"""A Kerberos server of its own, of what is installed, and a broker that lets clients in by its tickets."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from snapkafka.runtime import Child
from snapkafka.testing import HOST, EmbeddedKafka, free_ports
from snapkafka.until import blocking_until

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


@contextlib.contextmanager
def kerberos() -> Iterator[Kerberos]:
    """A server with a client and the service of a broker on this host; it ends with the block, or with us."""
    kdc, util, admin = (program(name) for name in ("krb5kdc", "kdb5_util", "kadmin.local"))
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-kerberos-"))
    (port,) = free_ports(1)
    # The database's module is looked for where the server was built to lie, not where it lies.
    modules = [*Path(kdc).parents[1].glob("lib/*/krb5/plugins/kdb")]
    database = f"[dbmodules]\n db_module_dir = {modules[0]}\n" if modules else ""
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
        " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = {HOST}:{port}\n }}\n{database}"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = {HOST}:{port}\n kdc_tcp_listen = {HOST}:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n"
        f"  acl_file = {folder}/acl\n"
        f"  supported_enctypes = aes256-cts-hmac-sha1-96:normal\n }}\n{database}"
    )
    environ = os.environ | {
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
    }

    def run(*words: str) -> None:
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(util, "create", "-s", "-P", "not-a-secret", "-r", REALM)
        for principal, name in ((CLIENT, "ann"), (SERVICE, "kafka")):
            run(admin, "-r", REALM, "-q", f"addprinc -randkey {principal}")
            run(admin, "-r", REALM, "-q", f"ktadd -k {folder}/{name}.keytab {principal}")
        with (folder / "log").open("wb") as log:
            command = [kdc, "-n", "-r", REALM]
            with Child(command, env=environ, output=log, folders=[folder], grace_s=0) as server:

                def starts() -> bool:
                    return server.status is not None or b"starting" in (folder / "log").read_bytes()

                blocking_until(starts, STARTS_WITHIN_S, "the Kerberos server")
                assert server.status is None, (folder / "log").read_text()
                yield Kerberos(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def broker_of(server: Kerberos, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[EmbeddedKafka, str]]:
    """A broker with an open door and one for tickets; it, and the address of the latter."""
    (door,) = free_ports(1)
    broker = EmbeddedKafka(
        properties={
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,TICKET:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.ticket.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule"
            f' required useKeyTab=true storeKey=true keyTab="{server.folder}/kafka.keytab" principal="{SERVICE}";',
        }
    )
    open_door = f"CLIENT://{broker.bootstrap}"
    broker.properties |= {
        "listeners": f"{open_door},TICKET://{HOST}:{door},CONTROLLER://{HOST}:{broker.controller_port}",
        "advertised.listeners": f"{open_door},TICKET://{BROKER}:{door}",
    }
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", server.java_flag)  # the broker is the one Java that it is for
    with broker:
        monkeypatch.delenv("JAVA_TOOL_OPTIONS")
        yield broker, f"{BROKER}:{door}"
