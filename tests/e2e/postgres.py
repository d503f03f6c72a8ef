"""A PostgreSQL server of its own, of what is installed; and the JDBC sink of Debezium, a plugin of Kafka Connect."""

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
from snapkafka.testing import free_ports, wait_until
from tests.servers.jars import jars_with_dependencies

#: The sink, and the driver of its database.
JDBC_JARS: Final = ("io.debezium:debezium-connector-jdbc:3.5.0.Final", "org.postgresql:postgresql:42.7.7")
USER: Final = "snapkafka"
PASSWORD: Final = "not-a-secret"
WITHIN_S: Final = 60
#: Where Debian and Red Hat put the programs, which are not in PATH.
PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


def jdbc_plugin(plugins: Path) -> None:
    """Put the sink into a folder of plugins, as a user unpacks its archive there."""
    folder = plugins / "debezium-connector-jdbc"
    folder.mkdir(parents=True)
    for jar in jars_with_dependencies(*JDBC_JARS):
        if not jar.name.startswith("jackson"):  # that is Connect's
            (folder / jar.name).symlink_to(jar)


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
        done = self._run("psql", "-X", "--no-align", "--tuples-only", "--field-separator=\t", "-c", sql)
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
    folders = [str(folder) for place in PLACES for folder in Path("/").glob(place.lstrip("/"))]
    found = shutil.which("initdb", path=os.pathsep.join([os.environ["PATH"], *folders]))
    if found is None:
        pytest.skip("not run: no PostgreSQL server is installed; `apt-get install postgresql`")
    return Path(found).resolve().parent


def postgres() -> Iterator[Postgres]:
    """A server with one database, whose user needs a password; it ends with the block, or with us."""
    server = Postgres(programs(), free_ports(1)[0])
    with tempfile.TemporaryDirectory(prefix="snapkafka-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (password := folder / "password").write_text(PASSWORD)
        switch = []
        if not os.geteuid():  # it refuses to run as root
            switch = ["setpriv", "--reuid=postgres", "--clear-groups"]
            for path in (folder, password):
                shutil.chown(path, "postgres")
        initdb = f"{server.programs}/initdb --pgdata={folder}/data --username={USER} --pwfile={password}"
        initdb += " --auth=scram-sha-256 --encoding=UTF8 --no-locale --no-sync"
        made = subprocess.run([*switch, *initdb.split()], cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        command = f"{server.programs}/postgres -D {folder}/data -h 127.0.0.1 -p {server.port} -k {folder} -c fsync=off"
        with (
            (folder / "log").open("wb") as log,
            Child([*switch, *command.split()], output=log, cwd=folder, folders=[folder], grace_s=0) as child,
        ):
            wait_until("PostgreSQL", lambda: child.status is not None or server.ready(), timeout_s=WITHIN_S)
            assert child.status is None, (folder / "log").read_text()
            yield server
