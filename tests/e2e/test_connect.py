"""The configurations of connectors/kafka-connect on a real Connect worker, beside a service and its snapshots."""

import asyncio
import contextlib
import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka import ops
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.protocol import Trigger, Verdict
from snapkafka.testing import RunningSystem, free_ports
from snapkafka.wire import codec
from tests.e2e import fed_shop
from tests.e2e.postgres import PASSWORD, Postgres, jdbc_plugin, postgres
from tests.features.harness import read_topics
from tests.features.readers import Reader, properties, standalone

SHIPPED: Final = Path(__file__).parents[2] / "connectors" / "kafka-connect"
CONNECTORS: Final = ("orders-source", "totals-sink", "verdicts-source", "verdicts-sink", "ledger-sink")
#: Of a plugin, to a database.
JDBC: Final = ("verdicts-jdbc", "ledger-jdbc")
#: The group by which Connect reads for a sink.
SINK: Final = "connect-totals-sink"
PAUSE_S: Final = 0.01
LINES: Final = 100
#: A worker of Connect starts, and takes over from one that was killed, on a busy machine.
WITHIN_S: Final = 150


def shipped(name: str) -> dict[str, str]:
    lines = (SHIPPED / f"{name}.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_every_file_is_a_configuration_that_names_itself() -> None:
    assert {path.stem for path in SHIPPED.glob("*.properties")} == {"worker", *CONNECTORS, *JDBC}
    for name in (*CONNECTORS, *JDBC):
        settings = shipped(name)
        assert settings["name"] == name
        assert settings["connector.class"].startswith(
            ("org.apache.kafka.connect.file.FileStreamS", "io.debezium.connector.jdbc.JdbcSinkConnector")
        )


@dataclass(frozen=True)
class Connect:
    """Where the shipped configurations lead in this test: only files, addresses and the flush interval are others."""

    folder: Path
    bootstrap: str

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    @contextlib.contextmanager
    def running(
        self, *, flush_ms: int, connectors: Sequence[str] = CONNECTORS, **others: str
    ) -> Iterator[Reader]:
        """A worker with these connectors; `others` are settings of those that are not for files."""
        settings = shipped("worker") | {
            "bootstrap.servers": self.bootstrap,
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
            "plugin.path": str(self.folder / "plugins"),
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": str(flush_ms),
        }
        (self.folder / "plugins").mkdir(exist_ok=True)
        given = []
        for name in connectors:
            self.file(name).touch()
            given.append(self.folder / f"{name}.properties")
            changed = others if name in JDBC else {"file": str(self.file(name))}
            properties(given[-1], shipped(name) | changed)
        with standalone(self.folder, settings, *given) as reader:
            yield reader


@contextlib.contextmanager
def feeding(file: Path) -> Iterator[None]:
    """Append lines to a file until the end of the block, each another one."""
    done = threading.Event()

    def feed() -> None:
        with file.open("a", buffering=1) as lines:
            for number in itertools.count():
                if done.wait(PAUSE_S):
                    return
                lines.write(f"customer-{number % 7} {number}\n")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(feed)
        try:
            yield
        finally:
            done.set()
            running.result()


def run(work: Any) -> Any:
    return asyncio.run(work)


def waiting(s: RunningSystem) -> Callable[[str, Callable[[], Any]], None]:
    """Wait as long as a worker of Connect takes on a busy machine."""
    return lambda what, holds: s.wait_until(what, holds, timeout_s=WITHIN_S)


@pytest.mark.nightly
@pytest.mark.timeout(600)  # the first run fetches the jars of Connect, 70 MB
def test_a_source_a_sink_the_verdicts_and_the_ledger(
    snapkafka_system: Callable[..., RunningSystem], tmp_path: Path
) -> None:
    s = snapkafka_system(fed_shop.app, topics={"totals": 1, "snapkafka-verdicts": 1})
    connect, wait = Connect(tmp_path, s.bootstrap), waiting(s)
    with feeding(connect.file("orders-source")):
        # 1. A connector that is killed before it has committed how far it has read writes its lines again.
        with connect.running(flush_ms=600_000) as reader:
            wait(f"{LINES} orders", lambda: len(_orders(s)) >= LINES)
            reader.check_quiet()
        before = len(_orders(s))
        with connect.running(flush_ms=500) as reader:
            wait("the same lines once more", lambda: _doubled(s) >= before)

            # 2. A snapshot in the middle of it has the position of the service in what the connector has written.
            taken = s.snapshot()
            found = run(ops.read_ledger(s.connection, s.namespace)).state.captured(taken.epoch)
            position = next(it.position for it in found.inputs if it.topic == "orders")
            assert before < position <= len(_orders(s))
            (seen,) = taken.query(
                "SELECT sum(CAST(value AS BIGINT)) AS n FROM state WHERE table_name = 'seen'"
            )
            assert seen["n"] == position, "each record below the position counts once, and none above it"
            judged = taken.assembled
            assert (judged.verdict, [entry.group for entry in judged.open]) == ("VERIFIED_OPEN", [SINK])
            assert [(entry.topic, entry.mixed) for entry in judged.external] == [("orders", False)]
            more: Any = {"snapshots": (taken.id,), "storage": str(s.storage), "sinks": (SINK,)}
            (again,) = run(ops.verify(s.connection, ops.JobSpec(namespace=s.namespace, **more)))
            assert again.verdict == "VERIFIED"
            reader.check_quiet()

            # 3. Verdicts, as lines of a file, come out of the other end of Connect.
            print_verdicts(s, connect.file("verdicts-source"))
            verdicts = connect.file("verdicts-sink")
            wait("the verdict", lambda: verdicts.read_text().count("\n") == 1)
            fields = set(verdicts.read_text().strip("{}\n").split(", "))  # of a Java map, in no order
            assert {f"snapshot_id={taken.id}", "verdict=VERIFIED_OPEN", "good=true"} <= fields

            # 4. The ledger, byte by byte.
            archive = connect.file("ledger-sink")

            def records() -> list[Any]:
                parts = re.split(rb"\n(?=\xc3\x01|$)", archive.read_bytes().decode().encode("iso-8859-1"))
                return [codec.decode(part) for part in parts if part]

            wait(
                "the verdict in the archive of the ledger",
                lambda: any(isinstance(record, Verdict) for record in records()),
            )
            assert [it.id for it in records() if isinstance(it, Trigger)] == [taken.id]

            # 5. What the service has written, as the sink has it.
            totals = connect.file("totals-sink")
            wait(
                "the sink to write as many totals as there were orders",
                lambda: totals.read_text().count("\n") >= position,
            )
            assert set(json.loads(totals.read_text().splitlines()[0])) == {"customer", "orders"}
            reader.check_quiet()


@pytest.fixture
def database() -> Iterator[Postgres]:
    with postgres() as server:
        yield server


@pytest.mark.nightly
@pytest.mark.timeout(600)  # the first run fetches the jars of Connect and of the sink, 110 MB
def test_verdicts_and_ledger_are_in_a_database_and_each_is_there_once(
    database: Postgres,
    snapkafka_system: Callable[..., RunningSystem],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JDBC_PASSWORD", PASSWORD)  # as the worker of Connect has it
    s = snapkafka_system(fed_shop.app, topics={"totals": 1, "snapkafka-verdicts": 1})
    connect, wait = Connect(tmp_path, s.bootstrap), waiting(s)
    jdbc_plugin(tmp_path / "plugins")
    names = ("verdicts-source", *JDBC)
    url = {"connection.url": database.url}
    taken = s.snapshot()
    assert taken.assembled.verdict == "VERIFIED"
    print_verdicts(s, connect.file("verdicts-source"))

    def ledger() -> list[Any]:
        rows = database.query("SELECT encode(record, 'hex') FROM snapkafka_ledger ORDER BY __connect_offset")
        return [codec.decode(bytes.fromhex(row)) for (row,) in rows]

    # 1. A worker that is killed before it has committed how far it has written.
    with connect.running(flush_ms=600_000, connectors=names, **url) as reader:
        wait(
            "the verdict in the database",
            lambda: len(database.query("SELECT * FROM snapkafka_verdicts")) == 1,
        )
        wait(
            "the verdict in the database's ledger",
            lambda: any(isinstance(record, Verdict) for record in ledger()),
        )
        reader.check_quiet()
    assert [it.id for it in ledger() if isinstance(it, Trigger)] == [taken.id]
    before = database.query("SELECT * FROM snapkafka_ledger ORDER BY __connect_offset")
    assert not _committed(s, "ledger-jdbc"), "the sink has committed, so the next one shows nothing"

    # 2. The next one writes the same records again; each is there once, and a later one behind them.
    later = s.snapshot()
    with connect.running(flush_ms=500, connectors=names, **url) as reader:
        wait(
            "the later trigger in the database's ledger",
            lambda: [it.id for it in ledger() if isinstance(it, Trigger)] == [taken.id, later.id],
        )
        wait("the sink to commit", lambda: _committed(s, "ledger-jdbc") > len(before))
        reader.check_quiet()
    after = database.query("SELECT * FROM snapkafka_ledger ORDER BY __connect_offset")
    assert after[: len(before)] == before
    (doubled,) = database.query(
        "SELECT count(*), count(DISTINCT (__connect_partition, __connect_offset)) FROM snapkafka_ledger"
    )
    assert doubled == (str(len(after)), str(len(after)))

    # 3. SQL finds what a verdict holds.
    fields = ", ".join(f"verdict::jsonb ->> '{name}'" for name in ("snapshot_id", "verdict", "good"))
    # Its source was killed before it had committed, too.
    assert set(database.query(f"SELECT {fields} FROM snapkafka_verdicts")) == {(taken.id, "VERIFIED", "true")}


def _committed(s: RunningSystem, connector: str) -> int:
    """How far the group of a sink has committed, in the ledger."""

    async def ask() -> int:
        async with KafkaTopicAdmin(s.connection) as admin:
            found = await admin.committed(f"connect-{connector}")
        return max((offset for offset, _ in found.values()), default=0)

    return int(run(ask()))


def print_verdicts(s: RunningSystem, file: Path) -> None:
    """Print the verdicts of the ledger into a file."""
    words = ["verdicts", "--bootstrap", s.bootstrap, "--namespace", s.namespace]
    with file.open("ab") as out:
        subprocess.run([sys.executable, "-m", "snapkafka", *words], stdout=out, check=True)


def _orders(s: RunningSystem) -> list[bytes | None]:
    return [record.value for records in read_topics(s.bootstrap, "orders").values() for record in records]


def _doubled(s: RunningSystem) -> int:
    """How many lines were written more than once."""
    values = _orders(s)
    return len(values) - len(set(values))
