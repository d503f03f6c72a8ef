"""The configurations of connectors/kafka-connect on a real Connect worker, beside a service and its snapshots."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka import ops
from snapkafka.kafka import KafkaTopicAdmin
from snapkafka.protocol.records import Trigger, Verdict
from snapkafka.runtime import Child
from snapkafka.testing import RunningSystem, free_ports
from snapkafka.wire import codec
from tests.e2e import fed_shop
from tests.e2e.postgres import PASSWORD, Postgres, jdbc_plugin, postgres
from tests.features.harness import read_topics
from tests.features.readers import Reader, properties, standalone

SHIPPED: Final = Path(__file__).parents[2] / "connectors" / "kafka-connect"
#: The group by which Connect reads for a sink.
SINK: Final = "connect-totals-sink"
PAUSE_S: Final = 0.01
LINES: Final = 100
#: A worker of Connect starts, and takes over from one that was killed, on a busy machine.
WITHIN_S: Final = 150


def shipped(name: str) -> dict[str, str]:
    lines = (SHIPPED / f"{name}.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


#: The connectors; `JDBC` are those of a plugin, to a database.
JDBC: Final = tuple(sorted(path.stem for path in SHIPPED.glob("*-jdbc.properties")))
CONNECTORS: Final = {path.stem for path in SHIPPED.glob("*.properties")} - {"worker", *JDBC}


@dataclass(frozen=True)
class Connect:
    """Where the shipped configurations lead in this test: only files, addresses and the flush interval are others."""

    folder: Path
    bootstrap: str

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    @contextlib.contextmanager
    def running(self, flush_ms: int, names: Collection[str] = CONNECTORS, **others: str) -> Iterator[Reader]:
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
        for name in names:
            self.file(name).touch()
            given.append(self.folder / f"{name}.properties")
            assert shipped(name)["name"] == name
            changed = others if name in JDBC else {"file": str(self.file(name))}
            properties(given[-1], shipped(name) | changed)
        with standalone(self.folder, settings, *given) as reader:
            yield reader


@contextlib.contextmanager
def feeding(file: Path) -> Iterator[None]:
    """Append lines to a file until the end of the block, each another one."""
    code = f"""if True:
        import itertools, time
        for n in itertools.count():
            print(f"customer-{{n % 7}} {{n}}", flush=True)
            time.sleep({PAUSE_S})
    """
    with file.open("ab") as lines, Child([sys.executable, "-c", code], output=lines):
        yield


@pytest.mark.nightly
@pytest.mark.timeout(600)  # the first run fetches the jars of Connect, 70 MB
def test_a_source_and_sinks_of_files(snapkafka_system: Callable[..., RunningSystem], tmp_path: Path) -> None:
    s = snapkafka_system(fed_shop.app, topics={"totals": 1, "snapkafka-verdicts": 1})
    connect, wait = Connect(tmp_path, s.bootstrap), partial(s.wait_until, timeout_s=WITHIN_S)
    with feeding(connect.file("orders-source")):
        # 1. A connector that is killed before it has committed how far it has read writes its lines again.
        with connect.running(flush_ms=600_000) as reader:
            wait(f"{LINES} orders", lambda: len(_orders(s)) >= LINES)
            reader.check_quiet()
        before = len(_orders(s))
        with connect.running(flush_ms=500) as reader:
            wait("the same lines once more", lambda: len(found := _orders(s)) - len(set(found)) >= before)

            # 2. A snapshot in the middle of it has the position of the service in what the connector has written.
            taken = s.snapshot()
            found = asyncio.run(ops.read_ledger(s.connection, s.namespace)).state.captured(taken.epoch)
            position = next(it.position for it in found.inputs if it.topic == "orders")
            assert before < position <= len(_orders(s))
            (seen,) = taken.query("SELECT sum(value::BIGINT) AS n FROM state WHERE table_name = 'seen'")
            assert seen["n"] == position, "each record below the position counts once, and none above it"
            judged = taken.assembled
            assert (judged.verdict, [entry.group for entry in judged.open]) == ("VERIFIED_OPEN", [SINK])
            assert [(entry.topic, entry.mixed) for entry in judged.external] == [("orders", False)]
            more: Any = {"snapshots": (taken.id,), "storage": str(s.storage), "sinks": (SINK,)}
            (again,) = asyncio.run(ops.verify(s.connection, ops.JobSpec(namespace=s.namespace, **more)))
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

            wait("the verdict in the archive", lambda: any(isinstance(it, Verdict) for it in records()))
            assert [it.id for it in records() if isinstance(it, Trigger)] == [taken.id]

            # 5. What the service has written, as the sink has it.
            totals = connect.file("totals-sink")
            wait("a total for each order", lambda: totals.read_text().count("\n") >= position)
            assert set(json.loads(totals.read_text().splitlines()[0])) == {"customer", "orders"}
            reader.check_quiet()


database = pytest.fixture(postgres)


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
    connect, wait = Connect(tmp_path, s.bootstrap), partial(s.wait_until, timeout_s=WITHIN_S)
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
    with connect.running(flush_ms=600_000, names=names, **url) as reader:
        wait("the verdict in its table", lambda: len(database.query("SELECT * FROM snapkafka_verdicts")) == 1)
        wait("the verdict in the ledger's table", lambda: any(isinstance(it, Verdict) for it in ledger()))
        reader.check_quiet()
    assert [it.id for it in ledger() if isinstance(it, Trigger)] == [taken.id]
    before = database.query(rows := "SELECT * FROM snapkafka_ledger ORDER BY __connect_offset")
    assert not _committed(s, "ledger-jdbc"), "the sink has committed, so the next one shows nothing"

    # 2. The next one writes the same records again; each is there once, and a later one behind them.
    later = s.snapshot()
    with connect.running(flush_ms=500, names=names, **url) as reader:
        wait(
            "the later trigger in the database's ledger",
            lambda: [it.id for it in ledger() if isinstance(it, Trigger)] == [taken.id, later.id],
        )
        wait("the sink to commit", lambda: _committed(s, "ledger-jdbc") > len(before))
        reader.check_quiet()
    after = database.query(rows)
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

    return int(asyncio.run(ask()))


def print_verdicts(s: RunningSystem, file: Path) -> None:
    """Print the verdicts of the ledger into a file."""
    words = ["verdicts", "--bootstrap", s.bootstrap, "--namespace", s.namespace]
    with file.open("ab") as out:
        subprocess.run([sys.executable, "-m", "snapkafka", *words], stdout=out, check=True)


def _orders(s: RunningSystem) -> list[bytes | None]:
    return [record.value for records in read_topics(s.bootstrap, "orders").values() for record in records]
