"""A PostgreSQL server of its own, of what is installed; and the JDBC sink of Debezium, a plugin of Kafka Connect."""

import contextlib
import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from snapkafka.runtime import Child, jars
from snapkafka.testing import free_ports, wait_until

#: The jars of its archive that it needs for PostgreSQL; Jackson is that of Connect.
JDBC_JARS: Final = (
    "io.debezium:debezium-connector-jdbc:3.5.0.Final",
    *(
        f"io.debezium:debezium-{part}:3.5.0.Final"
        for part in (
            "api", "config", "connect-plugins", "connector-common", "openlineage-api", "sink", "util",
        )
    ),
    "com.fasterxml:classmate:1.7.0",
    "com.mchange:c3p0:0.12.0",
    "com.mchange:mchange-commons-java:0.4.0",
    "com.sun.istack:istack-commons-runtime:4.1.2",
    "jakarta.activation:jakarta.activation-api:2.1.3",
    "jakarta.inject:jakarta.inject-api:2.0.1",
    "jakarta.persistence:jakarta.persistence-api:3.2.0",
    "jakarta.transaction:jakarta.transaction-api:2.0.1",
    "jakarta.xml.bind:jakarta.xml.bind-api:4.0.2",
    "net.bytebuddy:byte-buddy:1.17.6",
    "org.antlr:antlr4-runtime:4.10.1",
    "org.eclipse.angus:angus-activation:2.0.2",
    "org.glassfish.jaxb:jaxb-core:4.0.5",
    "org.glassfish.jaxb:jaxb-runtime:4.0.5",
    "org.glassfish.jaxb:txw2:4.0.5",
    "org.hibernate.models:hibernate-models:1.0.1",
    "org.hibernate.orm:hibernate-c3p0:7.1.0.Final",
    "org.hibernate.orm:hibernate-core:7.1.0.Final",
    "org.jboss.logging:jboss-logging:3.6.1.Final",
    "org.postgresql:postgresql:42.7.7",
)  # fmt: skip
USER: Final = "snapkafka"
PASSWORD: Final = "not-a-secret"
STARTS_WITHIN_S: Final = 60
#: Where Debian and Red Hat put the programs, which are not in PATH.
PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


def jdbc_plugin(plugins: Path) -> None:
    """Put the sink into a folder of plugins, as a user unpacks its archive there."""
    folder = plugins / "debezium-connector-jdbc"
    folder.mkdir(parents=True, exist_ok=True)
    for jar in jars(JDBC_JARS):
        link = folder / jar.name
        if not link.exists():
            link.symlink_to(jar)


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server."""

    programs: Path
    port: int

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def query(self, sql: str) -> list[tuple[str, ...]]:
        """Rows as text; nothing where the table is not there."""
        done = self._run(
            "psql", "--no-psqlrc", "--no-align", "--tuples-only", "--field-separator=\t", "-c", sql
        )
        if "does not exist" in done.stderr and done.returncode:
            return []
        assert done.returncode == 0, done.stderr
        return [tuple(line.split("\t")) for line in done.stdout.splitlines()]

    def ready(self) -> bool:
        return self._run("pg_isready").returncode == 0

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ["--host=127.0.0.1", f"--port={self.port}", f"--username={USER}", "--dbname=postgres"]
        return subprocess.run(
            [self.programs / program, *where, *arguments],
            env=os.environ | {"PGPASSWORD": PASSWORD},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip


def programs() -> Path:
    """The folder of the server's programs; where there is none the test is skipped."""
    folders = [Path(found).parent for found in (shutil.which("initdb"),) if found]
    folders += [folder for place in PLACES for folder in Path("/").glob(place.lstrip("/"))]
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pg_isready")):
            return folder
    pytest.skip("not run: no PostgreSQL server (initdb, postgres) is installed; `apt-get install postgresql`")


def owner() -> str:
    """The user that the server runs as: it refuses to run as root."""
    if os.geteuid():
        return getpass.getuser()
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """A server with one database, whose user needs a password; it ends with the block, or with us."""
    server, user = Postgres(programs(), free_ports(1)[0]), owner()
    folder = Path(tempfile.mkdtemp(prefix="snapkafka-postgres-"))
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        for path in (folder, password):
            shutil.chown(path, user)
        initdb: list[str | Path] = [
            server.programs / "initdb", f"--pgdata={folder}/data", f"--username={USER}", f"--pwfile={password}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync",
        ]  # fmt: skip
        made = subprocess.run(initdb, user=user, cwd=folder, capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stderr
        command: list[str | Path] = [
            server.programs / "postgres", "-D", folder / "data", "-h", "127.0.0.1",
            "-p", str(server.port), "-k", folder, "-c", "fsync=off",
        ]  # fmt: skip
        switch = [] if os.geteuid() else ["setpriv", f"--reuid={user}", "--clear-groups"]
        switched = [*switch, *map(str, command)]
        with (
            (folder / "log").open("wb") as log,
            Child(switched, output=log, cwd=folder, folders=[folder], grace_s=0) as child,
        ):
            wait_until(
                "the PostgreSQL server",
                lambda: child.status is not None or server.ready(),
                timeout_s=STARTS_WITHIN_S,
            )
            assert child.status is None, (folder / "log").read_text()
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)
